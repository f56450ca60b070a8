"""The graph of a plan: its calls with symbols and parameters for the numbers that change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.ir.builder import Builder
from weft.ir.graph import Graph
from weft.lazy.recorded import ResultOf
from weft.lazy.sizes import size_from, sizes_from
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.errors import WeftError
from weft.support.locations import Location
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr, substitute
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import FLOAT, tensor_type

if TYPE_CHECKING:
    from weft.lazy.programs import Plan, Writes

Numbers = Sequence[Any]


@dataclass(frozen=True)
class InputOf:
    """In an argument's place: a tensor that the program is given."""

    turn: int


@dataclass(frozen=True)
class NumberOf:
    """In an argument's place: a number that the program is given, or knows."""

    turn: int
    kind: type


Place = InputOf | ResultOf


@dataclass(frozen=True)
class UnbackedNumber:
    """In an argument's place: a number that hangs on sizes, which v0, v1, ... stand for. places: what has these sizes,
    and in which dim.
    """

    expr: Expr
    places: tuple[tuple[Place, int], ...]


@dataclass(frozen=True)
class Call:
    """One call of a plan; arguments name what stands in their place."""

    op: Op
    args: tuple[Any, ...]
    where: Location | None


class GraphOfPlan:
    """The graph of a plan, with symbols and parameters for some of its numbers."""

    def __init__(self, plan: Plan, numbers: Numbers, lifted: set[int]) -> None:
        self.plan, self.numbers, self.lifted = plan, numbers, lifted
        self.env = ShapeEnv()
        self.builder = Builder("lazy", self.env)
        self.builder.track_locations = False
        self.names: list[str | None] = []
        self.derived: dict[int, Expr] = {}
        self.inputs: list[Any] = []
        self.given: dict[int, Any] = {}  # numbers of the call that is emitted, as its rule sees them
        self.results: list[tuple[Any, ...]] = []
        self._one = plan.of_one(numbers)
        self._symbols: dict[Any, Expr] = {}  # by the argument of an operator, where it is one number in all calls

    def built(self, writes: Writes) -> Graph:
        """The graph. `names` and `derived` say afterwards what its numbers are."""
        plan, builder = self.plan, self.builder
        with builder.active():
            for slot, (dtype, rank) in enumerate(plan.kinds):
                dims = [self._size() for _ in range(rank)]
                self.inputs.append(builder.handle(builder.param(tensor_type(dtype, tuple(dims)), f"x{slot}")))
            self.names += [None] * (len(self.numbers) - len(self.names))
            for call in plan.calls:
                self.results.append(self._emitted(call))
            results = [builder.operand(self._argument(place)) for place in plan.wanted]
            unbacked = map(self._argument, plan.unbacked_sizes)
            results += [builder.operand(aten.full((), size, dtype=dt.int64)) for size in unbacked]
        return builder.graph(results, writes)

    def _size(self) -> Any:
        if len(self.names) not in self.lifted:
            self.names.append(None)
            return self.numbers[len(self.names) - 1]
        symbol = self.env.fresh("s", int(self.numbers[len(self.names)]))
        self.names.append(str(symbol))
        return symbol

    def _emitted(self, call: Call) -> tuple[Any, ...]:
        """The results of a call. Where its rule takes a number as it is alone, its numbers are constants."""
        places = list(_numbers_in(call.args))
        lifted = {i for i in places if i + self.plan.sizes in self.lifted}
        guards, params, demands = len(self.env.guards), len(self.builder.params), len(self.env.demands)
        sizes = self._sizes(call, lifted)
        self.given = {i: self._given(i, i in lifted, sizes.get(i)) for i in places}
        try:
            return self._call(call)
        except (TypeError, WeftError):
            if not lifted:
                raise
        self.env.take_back(guards)
        del self.env.demands[demands:]
        del self.builder.params[params:]
        for i in lifted:
            self.derived.pop(i + self.plan.sizes, None)
            self._symbols.pop(self.plan.role(i + self.plan.sizes), None)
            self.env.examples.pop(self.names[i + self.plan.sizes] or "", None)
            self.names[i + self.plan.sizes] = None
            self.plan.variants.lifting.constant.add(i + self.plan.sizes)
        self.given = {i: self._given(i, False) for i in places}
        return self._call(call)

    def _sizes(self, call: Call, lifted: Collection[int]) -> dict[int, Dim]:
        """What the numbers of a call are in terms of its first operand's sizes, where these say so."""
        operand = next((a for a in call.args if isinstance(a, (InputOf, ResultOf))), None)
        if operand is None or not lifted:
            return {}
        dims, axis = self._argument(operand).dims, _axis(call.op)
        if not {name for d in dims if type(d) is Expr for name in d.symbols()} <= self.env.examples.keys():
            return {}  # the program finds some of them
        dims_of: dict[int, Dim | None] = {}
        for position, a in enumerate(call.args):
            if type(a) is tuple and a and all([type(v) is NumberOf for v in a]):
                sizes = sizes_from([self._number(v) for v in a], dims, self.env)
                dims_of |= {v.turn: d for v, d in zip(a, sizes, strict=True)}
            elif type(a) is NumberOf and a.kind is int and axis is not None and position != axis:
                at = call.args[axis]
                at = self._number(at) if type(at) is NumberOf else at
                if type(at) is int and -len(dims) <= at < len(dims):
                    dims_of[a.turn] = size_from(self._number(a), dims[at], self.env)
        first, unexpected = self.plan.sizes, self.plan.variants.lifting.unexpected
        return {i: d for i, d in dims_of.items() if d is not None and i in lifted and i + first not in unexpected}

    def _number(self, place: NumberOf) -> int:
        return int(self.numbers[place.turn + self.plan.sizes])

    def _given(self, place: int, is_input: bool, size: Dim | None = None) -> Any:
        i = place + self.plan.sizes
        number = self.numbers[i]
        if type(size) is Expr:
            self.derived[i] = size
            return size
        if not is_input or size is not None:
            return number if type(number) is float else int(number)
        if type(number) is float:
            self.names[i] = ""
            return self.builder.handle(self.builder.param(FLOAT, f"n{place}"))
        role = self.plan.role(i)
        if role in self._symbols and i not in self.plan.variants.lifting.unexpected:
            self.derived[i] = self._symbols[role]
            return self._symbols[role]
        symbol = self.env.fresh("i", int(number))
        self.names[i] = str(symbol)
        if role in self._one and type(number) is int:
            self._symbols[role] = symbol
        return symbol

    def _call(self, call: Call) -> tuple[Any, ...]:
        self.builder.where = call.where
        out = self.builder.call(call.op, tuple([self._argument(a) for a in call.args]))
        return out if isinstance(out, tuple) else (out,)

    def _argument(self, a: Any) -> Any:
        kind = type(a)
        if kind is InputOf:
            return self.inputs[a.turn]
        if kind is ResultOf:
            return self.results[a.call][a.index]
        if kind is NumberOf:
            return self.given[a.turn]
        if kind is UnbackedNumber:
            return substitute(a.expr, {f"v{i}": self._argument(p).dims[axis] for i, (p, axis) in enumerate(a.places)})
        return tuple([self._argument(v) for v in a]) if kind is tuple else a


def _numbers_in(args: Iterable[Any]) -> Iterator[int]:
    for a in args:
        if type(a) is NumberOf:
            yield a.turn
        elif type(a) is tuple:
            yield from _numbers_in(a)


def _axis(op: Op) -> int | None:
    """The position of the argument that names one dim."""
    return next((i for i, a in enumerate(op.schema.arguments) if a.name == "dim" and not a.is_list), None)
