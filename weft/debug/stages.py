"""The stages of compilation one by one: each pass of passes/pipeline.py, then code generation; and whether one of them
changes what a graph computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.debug.tolerance import Tolerance
from weft.debug.watched import copied, run_optimized, scale_of
from weft.ir.differences import Difference
from weft.ir.evaluate import Values, interpret
from weft.ir.graph import Graph
from weft.passes.pipeline import fold, optimize, optimize_folded
from weft.passes.run import Pass, Run
from weft.support.errors import ValueProblem
from weft.support.knobs import nearest

CODE = "code generation"


@dataclass
class _NotedRun(Run):
    """The runs of passes that changed a graph: each with the graphs before and behind it."""

    noted: list[tuple[str, Graph, Graph]] = field(default_factory=list)

    def apply(self, name: str, transform: Pass, graph: Graph) -> Graph:
        """Run one pass on a graph."""
        after = super().apply(name, transform, graph)
        if after is not graph:
            self.noted.append((name, graph, after))
        return after


@dataclass
class _OnePass(Run):
    """Runs the passes of one name alone."""

    only: str = ""

    def apply(self, name: str, transform: Pass, graph: Graph) -> Graph:
        """Run one pass on a graph, if it is the one."""
        self.names.append(name)
        return transform(graph) if name == self.only else graph

    names: list[str] = field(default_factory=list)


def changes(graph: Graph) -> list[tuple[str, Graph, Graph]]:
    """Each run of a pass that changes a graph on its way, with the graphs before and behind it, in order."""
    run = _NotedRun()
    optimize(graph, run)
    return run.noted


def with_one_pass(name: str, graph: Graph) -> Graph:
    """A graph behind the passes of one name. Raises ValueProblem where there is none."""
    run = _OnePass(only=name)
    after = optimize_folded(fold(graph, run), run)
    if name not in run.names:
        names = list(dict.fromkeys(run.names))
        raise ValueProblem(f"there is no pass {name!r}; there are {', '.join(names)}, {CODE}{nearest(name, names)}")
    return after


@dataclass(frozen=True)
class Stage:
    """A pass by its name, or code generation."""

    name: str
    tolerance: Tolerance = field(default_factory=Tolerance)

    def fault(self, graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> Difference | None:
        """How the first result differs of what this stage makes of a graph; None if none does."""
        return next(iter(self.faults(graph, inputs, symbols).values()), None)

    def faults(self, graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> dict[int, Difference]:
        """The results that differ of what this stage makes of a graph, by number: all, where it fails."""
        expected = interpret(graph, copied(inputs), symbols)
        try:
            if self.name == CODE:
                actual = run_optimized(graph, inputs, symbols)
            else:
                actual = interpret(with_one_pass(self.name, graph), copied(inputs), symbols)
        except ValueProblem:
            raise
        except Exception as error:
            failure = Difference(text=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            return dict.fromkeys(range(len(graph.results)), failure)
        return self.differences(graph, actual, expected, dict(zip(graph.params, inputs, strict=True)))

    def differences(
        self, graph: Graph, actual: Sequence[Any], expected: Sequence[Any], values: Values
    ) -> dict[int, Difference]:
        """The results that differ, by number. values: those that are known of the graph."""
        gap = {
            i: self.tolerance.difference(a, b, scale_of(result, values))
            for i, (result, a, b) in enumerate(zip(graph.results, actual, expected, strict=True))
        }
        return {i: one for i, one in gap.items() if one is not None}
