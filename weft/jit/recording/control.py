"""Branches and loops of a program that is captured, where they hang on what is only known when it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import weft
from weft.compile.blocks.branches import choose
from weft.compile.blocks.control import record_branches
from weft.compile.blocks.loops import repeat
from weft.compile.blocks.recorded import Recorded
from weft.compile.capture.backend import active_capture
from weft.compile.numbers.random_state import places
from weft.ir.builder import Builder, Handle
from weft.ir.graph import Block, Value
from weft.jit.recording.values import (
    UNSET,
    Asked,
    NotRecorded,
    RunTime,
    kind_of,
    leaves,
    number_tensor,
    options_of,
    rebuilt,
    run_time,
)
from weft.ops.packet import aten
from weft.support.errors import WeftError
from weft.support.locations import Location
from weft.tensor.tensor import Tensor
from weft.types import dims, shape_env
from weft.types import dtype as dt
from weft.types.sym import SymInt, wrap
from weft.types.tensor_type import BOOL, INT, Type


def _capture() -> Any:
    found = active_capture()
    assert found is not None
    return found


@dataclass(eq=False)
class _Leaf:
    """A leaf of what a branch gives: what it is, and where it stands among the block's results (-1: it is no value of
    the graph).
    """

    value: Any
    at: int = -1


class _Arm:
    """One branch: its leaves, for each result of the node."""

    def __init__(self, run: Callable[[], Sequence[Any]]) -> None:
        self.run = run
        self.values: list[Any] = []
        self.found: list[_Leaf] = []

    def record(self) -> list[Tensor]:
        """Run it; what it gives that is a value of the graph."""
        self.values = list(self.run())
        tensors: list[Tensor] = []
        for leaf in (leaf for value in self.values for leaf in leaves(value)):
            tensor = leaf if isinstance(leaf, Tensor) else number_tensor(leaf) if _is_number(leaf) else None
            self.found.append(_Leaf(leaf, -1 if tensor is None else len(tensors)))
            if tensor is not None:
                tensors.append(tensor)
        return tensors


def _is_number(leaf: Any) -> bool:
    return kind_of(leaf) is not None


def choose_when_run(test: RunTime, arms: Sequence[Callable[[], Sequence[Any]]], where: Location | None) -> list[Any]:
    """The results of a branch whose condition is only known when the program runs. Raises NotRecorded."""
    capture = _capture()
    made = [_Arm(run) for run in arms]
    try:
        blocks = record_branches(capture, [arm.record for arm in made])
    except WeftError as error:
        raise _refusal("a branch", error) from error
    models, pairs = _matched(*made)
    picks = [_pick(capture, a, b, blocks) for a, b in pairs]
    kept = [p for p in picks if p.operands is not None]
    branches = tuple([_with_results(blocks[i], [p.part(i) for p in kept]) for i in (0, 1)])
    found = iter(choose(capture, number_tensor(test), branches, [p.order for p in kept], where))  # type: ignore[arg-type]
    parts = iter([p.value if p.operands is None else p.outcome(next(found)) for p in picks])
    return [rebuilt(model, parts) for model in models]


def _refusal(what: str, error: WeftError) -> NotRecorded:
    return error if isinstance(error, NotRecorded) else NotRecorded(f"{what} cannot be recorded: {error}")


def _matched(first: _Arm, second: _Arm) -> tuple[list[Any], list[tuple[_Leaf, _Leaf]]]:
    """For each result, what it is like; and pairs of leaves. What one branch does not set is as in the other."""
    models: list[Any] = []
    pairs: list[tuple[_Leaf, _Leaf]] = []
    rest = [iter(first.found), iter(second.found)]
    for a, b in zip(first.values, second.values, strict=True):
        model = b if a is UNSET else a
        mine = [_taken(rest[i], v) for i, v in enumerate((a, b))]
        count = max(map(len, mine))
        for i, v in enumerate((a, b)):
            if v is UNSET:
                mine[i] = [_Leaf(UNSET)] * count
        if len(mine[0]) != len(mine[1]):
            raise NotRecorded("the branches give different structures")
        models.append(model)
        pairs += zip(*mine, strict=True)
    return models, pairs


def _taken(rest: Iterator[_Leaf], value: Any) -> list[_Leaf]:
    return [next(rest) for _ in leaves(value)]


@dataclass(eq=False)
class _Pick:
    """What becomes of a pair of leaves: a value that both have, or operands of the two blocks, with their edges."""

    value: Any = None
    operands: tuple[Any, Any] | None = None
    order: Any = None
    kind: Type | None = None
    options: tuple[Any, ...] | None = None

    def part(self, arm: int) -> Any:
        """Operand and edge in one of the blocks."""
        assert self.operands is not None
        return self.operands[arm]

    def outcome(self, tensor: Tensor) -> Any:
        """The value that the branch gives."""
        return tensor if self.kind is None else RunTime(tensor, self.kind, self.options)


def _pick(capture: Any, a: _Leaf, b: _Leaf, blocks: Sequence[Recorded]) -> _Pick:
    if _are_same(a.value, b.value):
        return _Pick(a.value)
    kinds = [kind_of(leaf.value) for leaf in (a, b) if leaf.value is not UNSET]
    if any(k is not kinds[0] for k in kinds):
        raise NotRecorded("the branches give different types")
    known = next(leaf for leaf in (a, b) if leaf.value is not UNSET)
    if known.at < 0:
        raise NotRecorded(f"a value of type {type(known.value).__name__} hangs on a branch")
    parts = [_part(capture, leaf, known, block) for leaf, block in zip((a, b), blocks, strict=True)]
    types = [p[0].type for p in parts]
    if types[0].dtype is not types[1].dtype or not _same_shape(types[0].dims, types[1].dims):
        raise NotRecorded(f"the branches give {types[0]} and {types[1]}")
    orders = [capture.tensors.order_of(leaf.value) for leaf in (a, b)]
    order = orders[0] if orders[0] == orders[1] else None
    return _Pick(operands=(parts[0], parts[1]), order=order, kind=kinds[0], options=_either(a.value, b.value))


def _either(a: Any, b: Any) -> tuple[Any, ...] | None:
    found = [options_of(v) for v in (a, b) if v is not UNSET]
    if any(options is None for options in found):
        return None
    joined = tuple(dict.fromkeys(v for options in found for v in options or ()))
    return joined if len(joined) <= MOST_OPTIONS else None


def _same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    env = shape_env.current_env()
    return len(a) == len(b) and all(
        x == y or (env is not None and env.proves_equal(x, y)) for x, y in zip(a, b, strict=True)
    )


def _are_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    plain = (bool, int, float, str, type(None))
    return type(a) is type(b) and type(a) in plain and a == b and repr(a) == repr(b)


def _part(capture: Any, leaf: _Leaf, known: _Leaf, block: Recorded) -> tuple[Any, Any]:
    if leaf.value is not UNSET:
        return block.results[leaf.at], block.ends[leaf.at]
    return capture.tensors.operand(nothing_like(known.value)), None


def nothing_like(value: Any) -> Tensor:
    """Zeros where no value will be read."""
    if isinstance(value, Tensor):
        return aten.zeros(value.dims, dtype=value.dtype)  # type: ignore[no-any-return]
    kind = kind_of(value)
    return number_tensor(False if kind is BOOL else 0 if kind is INT else 0.0)


def _with_results(block: Recorded, parts: Sequence[tuple[Any, Any]]) -> Recorded:
    made = Block(block.block.params, block.block.nodes, tuple([operand for operand, _ in parts]))
    return replace(block, block=made, ends=tuple([edge for _, edge in parts]))


# ---- loops
MOST_OPTIONS = 8
LONGEST = 4096  # steps for each of which a row is kept; a longer loop counts its own
Body = Callable[[Any, Sequence[Any]], tuple[Any, list[Any]]]  # of a step: whether to go on, and what is carried on


def repeat_when_run(
    trip: Any, going: Any, carried: Sequence[Any], goes_round: Sequence[bool], body: Body, where: Location | None
) -> list[Any]:
    """The carried values at the end of a loop. goes_round: which of them the body changes. Raises NotRecorded."""
    values = _set(list(carried), goes_round, body)
    moving = [i for i, moves in enumerate(goes_round) if moves]
    begin = [_tensor(leaf) for i in moving for leaf in leaves(values[i])]
    kinds = [kind_of(leaf) for i in moving for leaf in leaves(values[i])]

    def enter(parts: Sequence[Tensor]) -> list[Any]:
        made = iter([t if k is None else RunTime(t, k) for t, k in zip(parts, kinds, strict=True)])
        inside = list(values)
        for i in moving:
            inside[i] = rebuilt(values[i], made)
        return inside

    def step(index: Tensor, parts: Sequence[Tensor]) -> tuple[Any, list[Tensor]]:
        following, results = body(RunTime(index, INT), enter(parts))
        return following, [_tensor(leaf) for i in moving for leaf in leaves(_of_kind(values[i], results[i]))]

    try:
        found = _counted(trip, going, begin, step, where)
        return enter(_while(trip, going, begin, step) if found is None else found)
    except WeftError as error:
        raise _refusal("a loop", error) from error


Step = Callable[[Tensor, Sequence[Tensor]], tuple[Any, list[Tensor]]]


def _counted(
    trip: Any, going: Any, begin: Sequence[Tensor], step: Step, where: Location | None
) -> Sequence[Tensor] | None:
    """A loop of so many steps at most, so that there can be a row of each; None if only its condition ends it."""
    if not isinstance(trip, int) or (type(trip) is int and trip > LONGEST):
        return None
    capture = _capture()
    drawn = places(capture.random)
    types = [capture.tensors.operand(t).type for t in begin]

    def body(inner: Builder, index: Value, carried: list[Tensor], slices: list[Tensor]) -> Any:
        place = capture.tensors.fresh(aten.full((), Handle(index, inner), dtype=dt.int64).value)
        following, found = step(place, carried)
        for kind, tensor in zip(types, found, strict=True):
            _check(kind, capture.tensors.operand(tensor).type)
        return following if following is True else _tensor(following), found, ()

    first = going if going is True else _tensor(going)
    found = repeat(capture, _not_negative(trip), first, list(begin), (), False, body, where=where)
    if places(capture.random) != drawn:
        raise NotRecorded("a loop draws random numbers, whose amount hangs on the number of steps")
    return found


def _not_negative(trip: Any) -> Any:
    """As many steps as rows."""
    return wrap(dims.maximum(trip.expr, 0), trip.env) if isinstance(trip, SymInt) else trip


def _check(expected: Any, found: Any) -> None:
    if expected.dtype is not found.dtype or not _same_shape(expected.dims, found.dims):
        raise NotRecorded(f"a loop carries {found} where {expected} goes in")


def _while(trip: Any, going: Any, begin: Sequence[Tensor], step: Step) -> Sequence[Tensor]:
    limit = number_tensor(trip)

    def again(goes_on: Tensor, index: Tensor, *parts: Tensor) -> Tensor:
        return aten.logical_and(goes_on, aten.lt(index, limit))  # type: ignore[no-any-return]

    def body(goes_on: Tensor, index: Tensor, *parts: Tensor) -> tuple[Any, ...]:
        following, found = step(index, parts)
        return _tensor(following), index + 1, *found

    _, _, *found = weft.while_loop(again, body, (_tensor(going), number_tensor(0), *begin))
    return found


def _of_kind(model: Any, value: Any) -> Any:
    """The next value of a carried one, which has to be made of as many parts."""
    if value is UNSET:
        return rebuilt(model, iter([nothing_like(leaf) if _is_number(leaf) or isinstance(leaf, Tensor) else leaf
                                    for leaf in leaves(model)]))
    if len(list(leaves(model))) != len(list(leaves(value))):
        raise NotRecorded("a loop carries values of changing structure")
    return value


def _tensor(leaf: Any) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    if not _is_number(leaf):
        raise NotRecorded(f"a loop carries a value of type {type(leaf).__name__}")
    return number_tensor(leaf, dt.bool_ if type(leaf) is Asked else None)


def _set(values: list[Any], goes_round: Sequence[bool], body: Body) -> list[Any]:
    """The values to begin with, where something like what the body gives stands for those that are not set yet."""
    missing = [i for i, moves in enumerate(goes_round) if moves and values[i] is UNSET]
    if not missing:
        return values
    capture = _capture()
    with capture.block() as (_, _writes):
        try:
            inside = [_opened(v) if moves else v for v, moves in zip(values, goes_round, strict=True)]
            _, results = body(RunTime(number_tensor(0), INT), inside)
        except WeftError as error:
            raise _refusal("a loop", error) from error
        shapes = [[_shape(leaf) for leaf in leaves(results[i])] for i in missing]
        models = [results[i] for i in missing]
    for i, model, parts in zip(missing, models, shapes, strict=True):
        values[i] = UNSET if model is UNSET else rebuilt(model, iter([make() for make in parts]))
    return values


def _opened(value: Any) -> Any:
    """A carried value as a step finds it: its numbers are only known when the program runs."""
    return rebuilt(value, iter([run_time(leaf) if _is_number(leaf) else leaf for leaf in leaves(value)]))


def _shape(leaf: Any) -> Callable[[], Any]:
    if isinstance(leaf, Tensor):
        dims, dtype = leaf.dims, leaf.dtype
        return lambda: aten.zeros(dims, dtype=dtype)
    kind = kind_of(leaf)
    if kind is None:
        return lambda: leaf
    return lambda: RunTime(number_tensor(False if kind is BOOL else 0 if kind is INT else 0.0), kind)
