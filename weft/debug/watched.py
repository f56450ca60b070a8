"""Programs as they run: what each was given and gave, and what its operators give one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from weft.codegen.program.compile import compile_program
from weft.debug.tolerance import Tolerance
from weft.ir.differences import Difference
from weft.ir.evaluate import ArrayEvaluator, Values
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.passes.dce import dce
from weft.passes.pipeline import optimize
from weft.runtime.cache import Cache
from weft.support.knobs import knobs
from weft.support.observers import observers
from weft.types.tensor_type import TensorType


class RecordingEvaluator(ArrayEvaluator):
    """Keeps every value of a graph's outermost block."""

    def __init__(self, symbols: Mapping[str, int], block: Block) -> None:
        super().__init__(symbols)
        self.values: Values = {}
        self._block = frozenset(block.nodes)

    def evaluate_node(self, node: Node, values: Values) -> None:
        """Add a node's results to `values`, for ever where it is none of a loop's."""
        super().evaluate_node(node, values)
        if node in self._block:
            self.values.update((output, values[output]) for output in node.outputs)


@dataclass(eq=False)
class ProgramRun:
    """One run of a program. inputs: as they were before it; results: as they were behind it."""

    executable: Any
    inputs: list[Any]
    symbols: dict[str, int]
    results: list[Any] = field(default_factory=list)

    @property
    def graph(self) -> Graph:
        """What was captured."""
        graph: Graph = self.executable.captured
        return graph

    @cached_property
    def reference(self) -> tuple[Values, list[Any]]:
        """What the operators give one by one: each value, and the results."""
        evaluator = RecordingEvaluator(self.symbols, self.graph.block)
        results = evaluator.evaluate(self.graph, copied(self.inputs))
        evaluator.values.update(zip(self.graph.params, self.inputs, strict=True))
        return evaluator.values, results

    def wrong_results(self, tolerance: Tolerance) -> dict[int, Difference]:
        """The results that are not what the operators give one by one, by number."""
        wrong: dict[int, Difference] = {}
        values, expected = self.reference
        for i, (a, b) in enumerate(zip(self.results, expected, strict=True)):
            gap = tolerance.difference(a, b, scale_of(self.graph.results[i], values))
            if gap is not None:
                wrong[i] = gap
        return wrong

    def first_wrong_value(self, tolerance: Tolerance) -> tuple[Value, Difference] | None:
        """The first value in the order of the operators that native code computes otherwise. Every value is made a
        result for that; where all are right then, the first wrong result of the program as it is."""
        wrong = self.wrong_results(tolerance)
        if not wrong:
            return None
        expected, _ = self.reference
        values = [v for node in self.graph.nodes for v in node.outputs if is_shown(v)]
        try:
            actual = run_native(with_results(self.graph, values), self.inputs, self.symbols)
        except Exception:  # what is a result has to be in memory, which not everything can
            actual = []
        for value, a in zip(values, actual, strict=False):
            gap = tolerance.difference(a, expected[value], scale_of(value, expected))
            if gap is not None:
                return value, gap
        results = self.graph.results
        numbers = {node: at for at, node in enumerate(self.graph.nodes)}
        candidates = [(numbers.get(v.node, -1), i, v) for i in wrong if isinstance(v := results[i], Value) and v.node]
        if not candidates:
            return None
        _, i, value = min(candidates, key=lambda one: one[:2])
        return value, wrong[i]


@contextmanager
def program_runs() -> Iterator[list[ProgramRun]]:
    """The runs of programs within a block, in all threads."""
    runs: list[ProgramRun] = []

    def run(executable: Any, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        noted = ProgramRun(executable, copied(inputs), dict(symbols))
        results: list[Any] = executable.compute(inputs, symbols)
        noted.results = copied(results)
        runs.append(noted)
        return results

    before = observers.executables
    observers.executables = run
    try:
        yield runs
    finally:
        observers.executables = before


def copied(values: Sequence[Any]) -> list[Any]:
    """Values with memory of their own."""
    return [v.copy() if isinstance(v, np.ndarray) else v for v in values]


def run_native(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
    """What native code gives that is made now of a captured graph, whatever code of it there is already."""
    return run_optimized(optimize(graph), inputs, symbols)


def run_optimized(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
    """The same of a graph behind all passes."""
    program = compile_program(graph, backend="numpy" if knobs.backend == "numpy" else "llvm", cache=Cache(None))
    return program.run(copied(inputs), symbols)


def with_results(graph: Graph, results: Sequence[Operand]) -> Graph:
    """The graph as a function that gives other values, and writes nothing."""
    return dce(Graph(graph.name, Block(graph.params, graph.nodes, tuple(results)), graph.env))


def is_shown(value: Value) -> bool:
    """Whether a value can be a result: its dtype and all of its sizes are known."""
    return isinstance(value.type, TensorType) and value.type.is_complete


def scale_of(operand: Operand, values: Mapping[Value, Any]) -> float:
    """The largest number among the operands that a value is made of: what its rounding errors are measured by."""
    if not isinstance(operand, Value) or operand.node is None:
        return 0.0
    largest = 0.0
    for value in operand.node.needs():
        array = np.asarray(values.get(value, 0.0))
        if array.size and (array.dtype.kind in "fc" or array.dtype.name == "bfloat16"):
            wide = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
            largest = max(largest, float(wide[np.isfinite(wide)].max(initial=0.0)))
    return largest
