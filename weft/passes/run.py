"""Running a pass: verify, time, print if it changed anything, dump. Every pass of the pipeline goes through here."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from weft.ir.graph import Graph
from weft.passes.fold.notes import LoopNote
from weft.support.errors import ValueProblem
from weft.support.knobs import knobs, nearest
from weft.support.progress import progress

Pass = Callable[[Graph], Graph]
NEEDED = ("open_opaque", "decompose")  # what cannot be left out: WEFT_FUEL limits the others
STAGES = ("captured", "opened", "optimized", "nests", "llvm")


@dataclass
class PassReport:
    """What one run of a pass did."""

    name: str
    seconds: float
    changed: bool
    nodes: int


@dataclass
class Run:
    """The runs of one compilation, in order, with the graph after each stage, and what became of loops of Python."""

    reports: list[PassReport] = field(default_factory=list)
    stages: dict[str, Graph] = field(default_factory=dict)
    loops: list[LoopNote] = field(default_factory=list)
    spent: int = 0  # fuel

    def apply(self, name: str, transform: Pass, graph: Graph) -> Graph:
        """Run one pass on a graph."""
        progress().stage(f"pass {name}", len(graph.nodes))
        start = time.perf_counter()
        after = transform(graph)
        seconds = time.perf_counter() - start
        if knobs.fuel >= 0 and after is not graph and name not in NEEDED:
            after = self._limited(name, graph, after)
        changed = after is not graph
        self.reports.append(PassReport(name, seconds, changed, len(after.nodes)))
        if knobs.check:
            _verify(name, graph, after)
        if changed:
            self._show(name, after)
        return after

    def _limited(self, name: str, graph: Graph, after: Graph) -> Graph:
        """What a pass made while there is fuel, and the graph as it was when there is none."""
        self.spent += 1
        if self.spent == knobs.fuel:
            print(f"fuel: the last pass that counts is {name}", file=sys.stderr)
        return after if self.spent <= knobs.fuel else graph

    def keep(self, stage: str, graph: Graph) -> Graph:
        """Remember the graph as a named stage, in place of which a folder may hold another."""
        file = f"{graph.name}.{len(self.stages) + 1:02d}.{stage}.ir"
        if knobs.override:
            graph = _replaced(os.path.join(knobs.override, file), graph)
        self.stages[stage] = graph
        if knobs.dump:
            _dump(file, graph)
        if stage in knobs.debug:
            print(f"{stage}:\n{graph}", file=sys.stderr)
        return graph

    def refuse_unknown_names(self) -> None:
        """Raises ValueProblem if WEFT_LOG names a pass that was not among these."""
        names = list(dict.fromkeys(report.name for report in self.reports))
        for name in sorted(knobs.log.difference(names)):
            raise ValueProblem(
                f"WEFT_LOG: there is no pass {name!r}; there are {', '.join(names)}{nearest(name, names)}"
            )

    def _show(self, name: str, graph: Graph) -> None:
        if "passes" in knobs.debug or name in knobs.log:
            print(f"after {name}:\n{graph}", file=sys.stderr)


def is_watched() -> bool:
    """Whether a knob asks for the passes themselves, so that a program from the disk cache would not do."""
    words = knobs.debug.intersection(("passes", *STAGES))
    return bool(words or knobs.log or knobs.dump or knobs.override or knobs.check or knobs.fuel >= 0)


def _verify(name: str, before: Graph, after: Graph) -> None:
    from weft.ir.verifier import verify  # only when asked for
    from weft.passes.same_values import check_values

    verify(after, f"after {name}")
    if knobs.check > 1 and after is not before:
        check_values(name, before, after)


def _dump(file: str, graph: Graph) -> None:
    os.makedirs(knobs.dump, exist_ok=True)
    with open(os.path.join(knobs.dump, file), "w", encoding="utf-8") as out:
        out.write(str(graph) + "\n")


def _replaced(path: str, graph: Graph) -> Graph:
    """The graph of a file, with the symbols of the one that it replaces; that one where there is no such file."""
    from weft.ir.parser import parse_graph  # only when asked for

    if not os.path.exists(path):
        return graph
    with open(path, encoding="utf-8") as file:
        read = parse_graph(file.read())
    print(f"override: {path}", file=sys.stderr)
    return Graph(graph.name, read.block, graph.env, read.writes)
