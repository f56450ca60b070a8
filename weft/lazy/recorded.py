"""Recorded rules: what a gradient's formula, or an update, calls. In a trace it is one entry, and opened to its calls
when the trace is planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weft.lazy.values import Deferred, Node, SizeOf
from weft.ops.op import Op
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.lazy.trace import Trace


class Structure:
    """What recordings have in common that are equal but for sizes and numbers; known by its identity."""

    __slots__ = ()


@dataclass(frozen=True)
class OperandOf:
    """In an argument's place: an operand of the rule, counting those that are used."""

    turn: int


@dataclass(frozen=True)
class ResultOf:
    """In an argument's place: a result of an earlier call."""

    call: int
    index: int


class NextNumber:
    """In an argument's place: the next of the call's numbers."""

    __slots__ = ()


NEXT_NUMBER = NextNumber()


@dataclass(frozen=True)
class RecordedCall:
    """One call of a rule; arguments name what stands in their place. numbers: which of the rule's are its own."""

    op: Op
    args: tuple[Any, ...]
    numbers: slice
    types: tuple[TensorType, ...]


@dataclass(frozen=True, eq=False)
class Recorded:
    """The calls of a rule for operands of certain types, and the results that leave it.

    used: the operands that the calls read (a range where these are the first ones). numbers: of the calls, in order;
    given: for some of them, their place and the turn of the argument that stands there. counted: the operators that
    were called, for the counters.
    """

    structure: Structure
    used: Sequence[int]
    calls: tuple[RecordedCall, ...]
    numbers: tuple[Any, ...]
    given: tuple[tuple[int, int], ...]
    results: tuple[ResultOf, ...]
    types: tuple[TensorType, ...]
    counted: tuple[Op, ...]

    @cached_property
    def may_raise(self) -> bool:
        """Whether some call may refuse its values."""
        return any([call.op.effect == "raises" for call in self.calls])

    def numbers_with(self, floats: Sequence[float]) -> tuple[Any, ...]:
        """The numbers of the calls when the rule is given these."""
        if not self.given:
            return self.numbers
        numbers = list(self.numbers)
        for place, slot in self.given:
            numbers[place] = floats[slot]
        return tuple(numbers)


class Opened:
    """The plain calls of a trace. sources: where each comes from, its entry's position and which of the entry's numbers
    are its own (None: all).
    """

    def __init__(self, trace: Trace, entries: Sequence[Node] | None = None) -> None:
        entries = trace.nodes if entries is None else entries
        self.nodes: Sequence[Node] = entries
        self.sources: list[tuple[int, slice | None]] = [(i, None) for i in range(len(entries))]
        self._trace = trace
        self._values: dict[tuple[int, int], Deferred] = {}  # by the position and index of what they stand for
        if any([type(node.op) is Recorded for node in entries]):
            self._open(entries)

    def value(self, value: Deferred) -> Deferred:
        """What stands for a value of the trace."""
        node = value.node
        return value if node is None else self._values.get((node.position, value.index), value)

    def place(self, position: int, index: int) -> tuple[int, int]:
        """The call, and which result of it, that gives a result of an entry."""
        value = self._values.get((position, index))
        return (position, index) if value is None or value.node is None else (value.node.position, value.index)

    def _open(self, entries: Sequence[Node]) -> None:
        self._calls: list[Node] = []
        self.nodes, self.sources = self._calls, []
        for entry in entries:
            args = self._standing_in(entry.args)
            if type(entry.op) is Recorded:
                values = self._open_rule(entry, entry.op, args)
            else:
                values = self._append(entry, entry.op, args, entry.numbers, entry.types, None)
            for i, value in enumerate(values):
                self._values[entry.position, i] = value

    def _standing_in(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self._stands_for, args))

    def _stands_for(self, a: Any) -> Any:
        kind = type(a)
        if kind is Deferred:
            return self.value(a)
        if kind is SizeOf:
            return SizeOf(a.expr, tuple([(name, self.value(value), axis) for name, value, axis in a.sources]))
        return self._standing_in(a) if kind is tuple else a

    def _open_rule(self, entry: Node, rule: Recorded, operands: tuple[Any, ...]) -> list[Deferred]:
        results: list[list[Deferred]] = []
        for call in rule.calls:
            numbers = entry.numbers[call.numbers]
            args = tuple(_filled(call.args, operands, results, iter(numbers)))
            results.append(self._append(entry, call.op, args, numbers, call.types, call.numbers))
        return [results[place.call][place.index] for place in rule.results]

    def _append(
        self, entry: Node, op: Op, args: tuple[Any, ...], numbers: tuple[Any, ...], types: tuple[TensorType, ...],
        own: slice | None,
    ) -> list[Deferred]:
        node = Node(op, args, numbers, types, entry.where)
        node.position, node.epoch = len(self._calls), entry.epoch
        self._calls.append(node)
        self.sources.append((entry.position, own))
        return [Deferred(self._trace, kind, node, i) for i, kind in enumerate(types)]


def _filled(
    args: tuple[Any, ...], operands: tuple[Any, ...], results: list[list[Deferred]], numbers: Iterator[Any]
) -> Iterator[Any]:
    for a in args:
        kind = type(a)
        if kind is OperandOf:
            yield operands[a.turn]
        elif kind is ResultOf:
            yield results[a.call][a.index]
        elif a is NEXT_NUMBER:
            yield next(numbers)
        else:
            yield tuple(_filled(a, operands, results, numbers)) if kind is tuple else a


def joined(sources: Sequence[tuple[int, slice | None]]) -> list[tuple[int, slice | None]]:
    """Runs of an entry's numbers, those that follow one another as one."""
    runs: list[tuple[int, slice | None]] = []
    for position, own in sources:
        before, last = runs[-1] if runs else (-1, None)
        if before == position and own is not None and last is not None and last.stop == own.start:
            runs[-1] = (position, slice(last.start, own.stop))
        else:
            runs.append((position, own))
    return runs
