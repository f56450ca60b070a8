"""What a loop over repeated nodes is: what it carries, what it goes over, and which nodes of an iteration need no
computation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from weft.ir.graph import Node, Operand, Value
from weft.passes.fold.repeats import Run
from weft.passes.fold.rows import Moving
from weft.support.errors import WeftError
from weft.types.dims import Dim


class NoLoop(WeftError):
    """Nodes that repeat are no loop. iteration: the first that does not do as the others do (None: all are alike, but
    something that they do has no loop)."""

    def __init__(self, text: str, iteration: int | None = None) -> None:
        super().__init__(text)
        self.iteration = iteration


# ---- where an operand comes from
@dataclass(frozen=True)
class Invariant:
    """The same operand in each iteration."""

    operand: Operand


@dataclass(frozen=True)
class Inner:
    """A result of a node of the same iteration."""

    position: int
    index: int


@dataclass(frozen=True)
class Slot:
    """A value that is carried: what a node gave `lag` iterations before. initial: what the first iteration reads, or
    the value and the place in its memory from where it is read."""

    position: int
    index: int
    lag: int
    initial: Value | tuple[Value, Moving]
    newer: Slot | None = None  # what the next iteration has in it


@dataclass(frozen=True)
class Counting:
    """An integer that grows evenly."""

    first: Dim
    step: Dim


@dataclass(frozen=True)
class LoopRows:
    """Rows that another loop has stacked, from that of its iteration `first` on, one after the other or backwards.
    source: the result of a node, or what is carried into each iteration."""

    loop: LoopPlan
    source: Inner | Slot
    first: int
    direction: int


@dataclass(frozen=True)
class MemoryRows:
    """Rows of a value, by where they lie in its memory."""

    value: Value
    moves: Moving


@dataclass(frozen=True)
class ListedRows:
    """Values that have nothing in common but their type: the loop reads each where it lies, by a table."""

    values: tuple[Value, ...]


@dataclass(frozen=True)
class NumberRows:
    """Numbers of Python, one for each iteration."""

    numbers: tuple[float, ...]


Rows = LoopRows | MemoryRows | ListedRows | NumberRows
Source = Invariant | Inner | Slot | Counting | LoopRows | MemoryRows | ListedRows | NumberRows


@dataclass(frozen=True)
class Record:
    """Memory that each iteration writes a row of, and nothing else reads: the rows are stacked, and written together
    after the loop."""

    position: int
    initial: Value
    moves: Moving
    row: Source


@dataclass(frozen=True)
class RowSum:
    """Memory to which each iteration adds rows, that nothing else reads: the rows are stacked, and added together
    after the loop. position: of the last addition; parts: the rows, in the order in which one row gets them."""

    position: int
    initial: Value
    parts: tuple[tuple[Moving, Source], ...]


@dataclass(eq=False)
class LoopPlan:
    """A loop over a run, part of the `whole` that repeats. sources: by position in the iteration, of each value and
    number of the node there; skipped: positions that nothing is computed for, and what stands for their result (None:
    nobody reads it)."""

    run: Run
    whole: Run
    nodes: list[Node]
    sources: list[list[Source]] = field(default_factory=list)
    skipped: dict[int, Source | None] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)
    sums: dict[int, RowSum] = field(default_factory=dict)
    slots: dict[Slot, None] = field(default_factory=dict)
    rows: dict[Rows, None] = field(default_factory=dict)

    @property
    def written_rows(self) -> list[Source]:
        """The rows that are stacked for memory, records first."""
        rows = [record.row for record in self.records.values()]
        return rows + [row for total in self.sums.values() for _, row in total.parts]

    @cached_property
    def is_reversed(self) -> bool:
        """Whether it runs from the last row to the first, because most of what it goes over lies that way."""
        votes = 0
        for rows in self.rows:
            if isinstance(rows, LoopRows):
                votes += -rows.direction if rows.loop.is_reversed else rows.direction
            elif isinstance(rows, MemoryRows):
                votes += -1 if rows.moves.is_backwards else 1
        return votes < 0

    def node(self, iteration: int, position: int) -> Node:
        """A node of the run."""
        return self.nodes[self.run.start + iteration * self.run.period + position]

    def slot_of(self, source: Inner, lag: int = 1) -> Slot | None:
        """What carries a result of a node to the next iteration, or to a later one."""
        return next(
            (s for s in self.slots if (s.position, s.index, s.lag) == (source.position, source.index, lag)), None
        )
