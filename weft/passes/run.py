"""Running a pass: verify, time, print if it changed anything, dump. Every pass of the pipeline goes through here."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from weft.ir.graph import Graph
from weft.support.knobs import knobs

Pass = Callable[[Graph], Graph]


@dataclass
class PassReport:
    """What one run of a pass did."""

    name: str
    seconds: float
    changed: bool
    nodes: int


@dataclass
class Run:
    """The runs of one compilation, in order, with the graph after each stage."""

    reports: list[PassReport] = field(default_factory=list)
    stages: dict[str, Graph] = field(default_factory=dict)

    def apply(self, name: str, transform: Pass, graph: Graph) -> Graph:
        """Run one pass on a graph."""
        start = time.perf_counter()
        after = transform(graph)
        seconds = time.perf_counter() - start
        changed = after is not graph
        self.reports.append(PassReport(name, seconds, changed, len(after.nodes)))
        if knobs.check:
            _verify(name, after)
        if changed:
            self._show(name, after)
        return after

    def keep(self, stage: str, graph: Graph) -> Graph:
        """Remember the graph as a named stage."""
        self.stages[stage] = graph
        if knobs.dump:
            _dump(len(self.stages), stage, graph)
        return graph

    def _show(self, name: str, graph: Graph) -> None:
        if "passes" in knobs.debug or name in knobs.log:
            print(f"after {name}:\n{graph}", file=sys.stderr)


def _verify(name: str, graph: Graph) -> None:
    from weft.ir.verifier import verify  # only when asked for

    verify(graph, f"after {name}")


def _dump(number: int, stage: str, graph: Graph) -> None:
    os.makedirs(knobs.dump, exist_ok=True)
    with open(os.path.join(knobs.dump, f"{graph.name}.{number:02d}.{stage}.ir"), "w", encoding="utf-8") as file:
        file.write(str(graph) + "\n")
