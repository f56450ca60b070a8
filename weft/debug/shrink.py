"""The smallest part of a graph that a stage of compilation still gets wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.debug.stages import Stage
from weft.debug.watched import RecordingEvaluator, copied, is_shown
from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.passes.dce import dce
from weft.passes.rebuild import with_values
from weft.types.tensor_type import BOOL, FLOAT, INT

_TRIED = 4  # wrong results that are looked at


@dataclass(eq=False)
class Part:
    """A graph and what it is run on."""

    graph: Graph
    inputs: list[Any]
    symbols: dict[str, int]

    def is_wrong(self, stage: Stage) -> bool:
        """Whether a stage changes what the graph computes."""
        try:
            return stage.fault(self.graph, self.inputs, self.symbols) is not None
        except Exception:  # a part that cannot be run
            return False


def shrunk(whole: Part, stage: Stage) -> Part:
    """A part of a graph that a stage gets wrong, as small as halving finds it: one result as early as may be, then as
    few operators before it. The whole, where only that is wrong."""
    evaluator = RecordingEvaluator(whole.symbols, whole.graph.block)
    evaluator.evaluate(whole.graph, copied(whole.inputs))
    values = {**evaluator.values, **dict(zip(whole.graph.params, whole.inputs, strict=True))}
    nodes = whole.graph.nodes
    ends = [n for n, node in enumerate(nodes) if node.outputs and all(map(is_shown, node.outputs))]
    faults = stage.faults(whole.graph, whole.inputs, whole.symbols)
    at_fault = {v for i in faults for v in values_in(whole.graph.results[i : i + 1])}
    wrong_ends = [n for n in ends if at_fault.intersection(nodes[n].outputs)]

    def part(begin: int, end: int) -> Part | None:
        return _part(whole, nodes[begin : end + 1], nodes[end].outputs, values)

    def is_wrong(begin: int, end: int) -> bool:
        smaller = part(begin, end)
        return smaller is not None and smaller.is_wrong(stage)

    last = next((n for n in wrong_ends[:_TRIED] if is_wrong(0, n)), None)
    if last is None:
        return whole
    low, high = 0, ends.index(last)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_wrong(0, ends[middle]) else (middle + 1, high)
    end, begin, step = ends[high], 0, (ends[high] + 1) // 2 or 1
    while step and begin <= end:
        if begin + step <= end and is_wrong(begin + step, end):
            begin += step
        else:
            step //= 2
    smallest = part(begin, end) or whole
    alone = _without_other_sizes(smallest)
    return alone if alone.is_wrong(stage) else smallest


def _without_other_sizes(part: Part) -> Part:
    """A part that knows of its own sizes alone, with those of the call as examples."""
    graph, env = part.graph, part.graph.env.at(part.symbols)
    own = set(re.findall(r"\b[siu]\d+\b", str(Graph(graph.name, graph.block))))
    env.examples = {name: size for name, size in env.examples.items() if name in own}
    env.guards = {relation: guard for relation, guard in env.guards.items() if relation.expr.symbols() <= own}
    return Part(Graph(graph.name, graph.block, env), part.inputs, {k: v for k, v in part.symbols.items() if k in own})


def _part(whole: Part, nodes: Sequence[Node], results: Sequence[Value], values: Mapping[Value, Any]) -> Part | None:
    """Some nodes as a graph that takes what they read from before; None where that cannot be an input."""
    env = whole.graph.env
    needed = dce(Graph(whole.graph.name, Block(_read(nodes, results), tuple(nodes), tuple(results)), env))
    reads = _read(needed.nodes, needed.results)
    if any(not is_shown(v) and v.type not in (BOOL, FLOAT, INT) for v in reads):
        return None
    params = {v: Value(v.type, f"x{i}") for i, v in enumerate(reads)}
    block = Block(tuple(params.values()), needed.nodes, needed.results)
    return Part(with_values(Graph(needed.name, block, env), params), [values[v] for v in reads], whole.symbols)


def _read(nodes: Sequence[Node], results: Sequence[Operand]) -> tuple[Value, ...]:
    """What nodes, or the results behind them, read from before, each once."""
    own = {v for node in nodes for v in node.outputs}
    read = [v for node in nodes for v in node.needs()] + [v for r in results for v in values_in(r)]
    return tuple(dict.fromkeys(v for v in read if v not in own))
