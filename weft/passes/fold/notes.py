"""What became of the loops of Python that a graph was captured from, for whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from weft.ir.graph import Graph, Node
from weft.ir.structure import ENDLESS, LOOP
from weft.passes.fold.repeats import Run
from weft.types.dims import Dim, Expr


class LoopNote(NamedTuple):
    """Nodes that repeat. lines: the user's lines that they come from; iterations: how many, perhaps a size; why: what
    kept them from being a loop, None where they are one."""

    lines: str
    iterations: Dim
    operators: int
    why: str | None

    def __str__(self) -> str:
        what = f"{self.lines}: {self.iterations} iterations of {self.operators} operators"
        return f"{what}, one loop" if self.why is None else f"{what}, each compiled by itself: {self.why}"


def note_of(nodes: Sequence[Node], run: Run, why: str | None = None) -> LoopNote:
    """What became of a run of nodes."""
    return LoopNote(_lines_of(nodes[run.start : run.start + run.period]), run.iterations, run.period, why)


def notes_of_loops(graph: Graph) -> Iterator[LoopNote]:
    """The loops that a graph was recorded with, of so many iterations as a number or a size says."""
    for node in graph.nodes:
        trip = node.args[0] if node.op is LOOP else None
        if isinstance(trip, Expr) or (type(trip) is int and trip < ENDLESS):
            yield LoopNote(_lines_of(node.blocks[0].nodes), trip, len(node.blocks[0].nodes), None)


def _lines_of(nodes: Sequence[Node]) -> str:
    where = [n.where for n in nodes if n.where is not None]
    if not where:
        return "nodes of no line"
    first, last = min(where, key=lambda w: w.line), max(where, key=lambda w: w.line)
    return str(first) if first.line == last.line or first.file != last.file else f"{first}-{last.line}"


def latest(notes: Iterable[LoopNote]) -> list[LoopNote]:
    """The notes without refusals of what became a loop later, when more was known of the nodes."""
    notes = list(notes)
    folded = {note.lines for note in notes if note.why is None}
    return list(dict.fromkeys(note for note in notes if note.why is None or note.lines not in folded))
