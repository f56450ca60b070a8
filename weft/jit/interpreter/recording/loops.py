"""Loops of a program that is captured, where they hang on what is only known when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import weft
from weft.ir.builder import Builder
from weft.ir.graph import Value
from weft.jit.interpreter.recording.containers import Container, OpenBlock, containers
from weft.jit.interpreter.recording.rows import Rows
from weft.jit.interpreter.recording.values import (
    UNSET,
    Asked,
    NotRecorded,
    RunTime,
    are_alike,
    is_number,
    kind_of,
    leaves,
    nothing_like,
    number_tensor,
    parts_of,
    rebuilt,
    refusal,
    run_time,
    same_type,
)
from weft.ops.packet import aten
from weft.record.blocks import front_ends as blocks
from weft.support.errors import WeftError
from weft.support.locations import Location
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types import dims
from weft.types import dtype as dt
from weft.types.sym import SymInt, wrap
from weft.types.tensor_type import BOOL, INT

LONGEST = 4096  # steps for each of which a row is kept; a longer loop counts its own
Body = Callable[[Any, Sequence[Any]], tuple[Any, list[Any]]]  # of a step: whether to go on, and what is carried on


@dataclass(eq=False)
class WhenRun:
    """A loop to be recorded. goes_round: which of the carried values its body changes; fills: whether the body may
    write to lists and dicts around it.
    """

    trip: Any
    going: Any
    carried: list[Any]
    goes_round: Sequence[bool]
    body: Body
    fills: bool
    where: Location | None

    def record(self) -> list[Any]:
        """The carried values at its end; what its body writes to lists and dicts around it is written. Raises
        NotRecorded.
        """
        try:
            return _Loop(self, _tried(self)).record()
        except WeftError as error:
            raise refusal("a loop", error) from error


class _Loop:
    def __init__(self, loop: WhenRun, tried: _Tried) -> None:
        self.loop, self.values = loop, tried.values
        self.written, self.grown, self.follows = tried.written, tried.grown, tried.follows
        self.expected_writes = {id(c) for c in (*self.written, *(g.container for g in self.grown))}
        self.moving = _moving(loop)
        self.begin = [_tensor(leaf) for leaf in leaves(self._state(self.values))]
        self.kinds = [kind_of(leaf) for leaf in leaves(self._state(self.values))]

    def _state(self, values: Sequence[Any]) -> list[Any]:
        """What a step changes: values, and what containers hold."""
        return [*(values[i] for i in self.moving), *(c.copy() for c in self.written)]

    def record(self) -> list[Any]:
        trip, going = self.loop.trip, self.loop.going
        if self.grown and type(trip) is int and trip <= LONGEST:
            raise NotRecorded("a loop of a known number of steps puts elements at the end of a list")
        if self._may_be_counted() and (self.follows or not self.grown):
            return self._left(*self._counted(trip, going))
        if not self.grown:
            return self._enter(self._while()[0])
        with no_grad():
            _, steps = self._while()
        return self._left(*self._counted(steps, True))

    def _may_be_counted(self) -> bool:
        """Whether there is a number of steps at most, so that there can be a row of each."""
        trip = self.loop.trip
        return isinstance(trip, int) and (type(trip) is not int or trip <= LONGEST)

    # ---- a step
    def step(self, index: Tensor, parts: Sequence[Tensor]) -> tuple[Any, list[Tensor], list[Tensor]]:
        """One step: whether to go on, what it carries on, and what it puts at the end of lists."""
        state = containers()
        with state.block([g.container for g in self.grown]) as block:
            following, results = self.loop.body(RunTime(index, INT), self._enter(parts))
            after = self._state(results)
            for begin, end in zip(self._state(self.values), after, strict=True):
                if end is not UNSET and not are_alike(begin, end):
                    raise NotRecorded("a loop carries values of changing structure")
            end = [_or_nothing(a, b) for a, b in zip(self._state(self.values), after, strict=True)]
            if not block.before.keys() <= self.expected_writes:
                raise NotRecorded("which lists and dicts a loop writes hangs on values")
            rows = [_tensor(leaf) for g in self.grown for leaf in leaves(g.added(block))]
            return following, [_tensor(leaf) for leaf in leaves(end)], rows

    def _enter(self, parts: Sequence[Tensor]) -> list[Any]:
        """The carried values, and containers filled, with these tensors."""
        replacements = iter([t if k is None else RunTime(t, k) for t, k in zip(parts, self.kinds, strict=True)])
        inside, state = list(self.values), containers()
        for i in self.moving:
            inside[i] = rebuilt(self.values[i], replacements)
            _note(self.values[i], inside[i])
        for container in self.written:
            state.replace(container, rebuilt(container.copy(), replacements))
        return inside

    # ---- the whole
    def _counted(self, trip: Any, going: Any) -> tuple[Sequence[Tensor], Sequence[Tensor], Any]:
        types = [blocks.operand(t).type for t in self.begin]
        is_computed = isinstance(trip, Tensor)

        def body(inner: Builder, index: Value, carried: list[Tensor], slices: list[Tensor]) -> Any:
            following, results, rows = self.step(blocks.step_number(inner, index), carried)
            for kind, tensor in zip(types, results, strict=True):
                _check(kind, blocks.operand(tensor).type)
            if self.grown and not is_computed and following is not True:
                raise NotRecorded("a loop that may end early puts elements at the end of a list")
            return True if following is True or is_computed else _tensor(following), results, rows

        first = going if going is True else _tensor(going)
        steps = _not_negative(trip)
        final = blocks.repeat(steps, first, list(self.begin), body, self.loop.where)
        return final[: len(self.begin)], final[len(self.begin) :], steps

    def _while(self) -> tuple[Sequence[Tensor], Tensor]:
        """The carried values of a loop that its condition ends, and how many steps it made."""
        limit = number_tensor(self.loop.trip)

        def again(goes_on: Tensor, index: Tensor, *parts: Tensor) -> Tensor:
            return aten.logical_and(goes_on, aten.lt(index, limit))  # type: ignore[no-any-return]

        def body(goes_on: Tensor, index: Tensor, *parts: Tensor) -> tuple[Any, ...]:
            following, results, _ = self.step(index, parts)
            return _tensor(following), index + 1, *results

        _, steps, *final = weft.while_loop(again, body, (_tensor(self.loop.going), number_tensor(0), *self.begin))
        return final, steps

    def _left(self, carried: Sequence[Tensor], rows: Sequence[Tensor], steps: Any) -> list[Any]:
        """The values at the end; containers have what they hold then."""
        values, stacked = self._enter(carried), iter(rows)
        state = containers()
        for grown in self.grown:
            parts = [next(stacked) for _ in leaves(grown.elements)]
            state.replace(grown.container, [*grown.container, Rows(grown.elements, parts, steps)])
        return values


def _note(model: Any, stand_in: Any) -> None:
    """Lists and dicts in a carried value stand for those that it began with."""
    parts = parts_of(model)
    if parts is None:
        return
    if isinstance(stand_in, (list, dict)):
        state = containers()
        is_own = bool(state.blocks) and state.blocks[-1].has_made(model)
        state.stands_for(stand_in, [] if is_own else [model])
    for one, other in zip(parts, parts_of(stand_in) or (), strict=True):
        _note(one, other)


def _or_nothing(model: Any, value: Any) -> Any:
    """The next value of a carried one; where none will be read, zeros."""
    if value is not UNSET:
        return value
    return rebuilt(model, iter([nothing_like(leaf) if is_number(leaf) or isinstance(leaf, Tensor) else leaf
                                for leaf in leaves(model)]))


def _not_negative(trip: Any) -> Any:
    """As many steps as rows."""
    return wrap(dims.maximum(trip.expr, 0), trip.env) if isinstance(trip, SymInt) else trip


def _check(expected: Any, actual: Any) -> None:
    if not same_type(expected, actual):
        raise NotRecorded(f"a loop carries {actual} where {expected} goes in")


def _tensor(leaf: Any) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    if not is_number(leaf):
        raise NotRecorded(f"a loop carries a value of type {type(leaf).__name__}")
    return number_tensor(leaf, dt.bool_ if type(leaf) is Asked else None)


# ---- what a step does, found by trying one
@dataclass(eq=False)
class _Grown:
    """A list that grows by these elements with each step."""

    container: Container
    elements: list[Any]

    def added(self, block: OpenBlock) -> list[Any]:
        """What a step has put there. Raises NotRecorded."""
        before = block.before[id(self.container)][1] if id(self.container) in block.before else self.container
        added = self.container[len(before) :]
        if not are_alike(added, self.elements):
            raise NotRecorded("a loop puts other elements at the end of a list with each step")
        return list(added)


@dataclass(eq=False)
class _Tried:
    """What a step does. values: what is carried, where something like what the body gives stands for values that are
    not set yet; written: containers around the loop whose elements it replaces; grown: lists at whose end it puts more;
    follows: whether it always goes on.
    """

    values: list[Any]
    written: list[Container]
    grown: list[_Grown]
    follows: bool


def _tried(loop: WhenRun) -> _Tried:
    values = list(loop.carried)
    missing = [i for i, moves in enumerate(loop.goes_round) if moves and values[i] is UNSET]
    if not missing and not loop.fills:
        return _Tried(values, [], [], True)
    tried = _Tried(values, [], [], True)
    is_stable = False
    while not is_stable:  # a container that is written holds numbers that only the run knows
        written_before = len(tried.written)
        with blocks.trial(), containers().block() as block:
            inside = [_opened(v) if moves else v for v, moves in zip(values, loop.goes_round, strict=True)]
            for container in tried.written:
                containers().replace(container, _opened(container.copy()))
            following, results = loop.body(RunTime(number_tensor(0), INT), inside)
            makers = {i: [_shape(leaf) for leaf in leaves(results[i])] for i in missing}
            models = {i: results[i] for i in missing}
            tried = _Tried(values, *_changes(block), following is True)
        widened = [i for i in _moving(loop) if i not in missing and _is_wider(results[i], values[i])]
        for i in widened:
            values[i] = results[i].__weft_from__(values[i])
        is_stable = written_before == len(tried.written) and not widened
    for i in missing:
        values[i] = UNSET if models[i] is UNSET else rebuilt(models[i], iter([make() for make in makers[i]]))
    return tried


def _moving(loop: WhenRun) -> list[int]:
    return [i for i, moves in enumerate(loop.goes_round) if moves]


def _is_wider(after: Any, before: Any) -> bool:
    """Whether what a step gives has a form of its own for what one value is to begin with."""
    return hasattr(type(after), "__weft_from__") and type(before) is not type(after) and before is not UNSET


def _changes(block: OpenBlock) -> tuple[list[Container], list[_Grown]]:
    written, grown = [], []
    for container, before in block.before.values():
        if are_alike(before, container):
            written.append(container)
        elif isinstance(container, list) and _begins_with(container, before):
            if id(container) in block.seen:
                raise NotRecorded("a list is read in the loop that puts elements at its end")
            grown.append(_Grown(container, container[len(before) :]))
        else:
            raise NotRecorded("a loop changes how many elements a list or dict has")
    return written, grown


def _begins_with(longer: list[Any], shorter: list[Any]) -> bool:
    return len(longer) > len(shorter) and all(a is b for a, b in zip(longer, shorter, strict=False))


def _opened(value: Any) -> Any:
    """A carried value as a step finds it: its numbers are only known when the program runs."""
    opened = rebuilt(value, iter([run_time(leaf) if is_number(leaf) else leaf for leaf in leaves(value)]))
    _note(value, opened)
    return opened


def _shape(leaf: Any) -> Callable[[], Any]:
    if isinstance(leaf, Tensor):
        sizes, dtype = leaf.dims, leaf.dtype
        return lambda: aten.zeros(sizes, dtype=dtype)
    kind = kind_of(leaf)
    if kind is None:
        return lambda: leaf
    return lambda: RunTime(number_tensor(False if kind is BOOL else 0 if kind is INT else 0.0), kind)
