"""What became of the loops of Python that a graph was captured from, for whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weft.ir.graph import Node
from weft.passes.fold.repeats import Run


class LoopNote(NamedTuple):
    """Nodes that repeat. lines: the user's lines that they come from; why: what kept them from being a loop, None where
    they are one."""

    lines: str
    iterations: int
    operators: int
    why: str | None

    def __str__(self) -> str:
        what = f"{self.lines}: {self.iterations} iterations of {self.operators} operators"
        return f"{what}, one loop" if self.why is None else f"{what}, each compiled by itself: {self.why}"


def note_of(nodes: Sequence[Node], run: Run, why: str | None = None) -> LoopNote:
    """What became of a run of nodes."""
    where = [n.where for n in nodes[run.start : run.start + run.period] if n.where is not None]
    if not where:
        return LoopNote("nodes of no line", run.iterations, run.period, why)
    first, last = min(where, key=lambda w: w.line), max(where, key=lambda w: w.line)
    lines = str(first) if first.line == last.line or first.file != last.file else f"{first}-{last.line}"
    return LoopNote(lines, run.iterations, run.period, why)


def latest(notes: Iterable[LoopNote]) -> list[LoopNote]:
    """The notes without refusals of what became a loop later, when more was known of the nodes."""
    notes = list(notes)
    folded = {note.lines for note in notes if note.why is None}
    return list(dict.fromkeys(note for note in notes if note.why is None or note.lines not in folded))
