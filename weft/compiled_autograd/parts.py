"""The parts of a captured backward: pure nodes, each followed by the calls of Python that come behind it.

A call that accumulates into a leaf without hooks gives nothing to anybody: it waits for the end of its part
instead of cutting it. Where much memory is at stake a part ends after a few leaves all the same, so that what was
saved for them is let go of before the gradients of the next ones are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.compiled_autograd.evaluate import evaluate_as
from weft.ir.backward_calls import ACCUMULATE_LEAF
from weft.ir.graph import Block, Graph, Node, Value, values_in
from weft.ir.opaque import plan_of_opaque
from weft.programs.on_tensors import TensorEvaluator
from weft.types.tensor_type import TENSOR

Values = dict[Value, Any]
Run = Callable[[Values], bool]  # computes the pure nodes of a part; True: each result has memory of its own
FORMULAS = 2  # in a short part


@dataclass
class Part:
    """Pure nodes, then calls of Python, in order; `last` is the number of nodes of the graph that are done with it."""

    nodes: list[Node] = field(default_factory=list)
    calls: list[tuple[int, Node]] = field(default_factory=list)
    is_piece: bool = False  # whether memory is at stake: nothing is kept between calls
    is_short: bool = False  # whether it lies between calls of Python and has very few formulas
    first: int = 0  # the number of its first node in the graph
    behind: int = 0  # the number behind its last pure node
    last: int = 0
    outputs: tuple[Value, ...] = ()  # of the pure nodes: what is read after them
    tensors: tuple[int, ...] = ()  # parameters of the graph that are first read here, by place
    # tensors of before it that nobody reads once its pure nodes are done
    inner: list[Value] = field(default_factory=list)
    dead: list[Value] = field(default_factory=list)  # what nobody reads once the part is done
    given: set[Value] = field(default_factory=set)  # results of its pure nodes that a leaf alone reads


def parts_of(graph: Graph, leaves: int | None = None, start: int = 0) -> list[Part]:
    """The parts of a captured backward. leaves: how many gradients are accumulated at the end of a part at most;
    start: the number of a node that begins one."""
    is_piece = leaves is not None
    parts = [Part(is_piece=is_piece)]
    for i, node in enumerate(graph.nodes):
        if node.op.effect == "python":
            parts[-1].calls.append((i, node))
        else:
            calls = parts[-1].calls
            is_full = leaves is not None and len(calls) >= leaves
            if i == start or is_full or any(runs_user_code(call) for _, call in calls):
                parts.append(Part(is_piece=is_piece, first=i))
            parts[-1].nodes.append(node)
            parts[-1].behind = i + 1
        parts[-1].last = i + 1
    _find_uses(graph, parts)
    for part in parts:
        part.is_short = len(parts) > 2 and is_short(part.nodes)
    return parts


def is_short(nodes: Sequence[Node]) -> bool:
    """Whether a part has so few formulas, and nothing but what is done around them."""
    return sum(plan_of_opaque(node.op) is not None for node in nodes) <= FORMULAS and not any(n.blocks for n in nodes)


def _find_uses(graph: Graph, parts: list[Part]) -> None:
    """What is read after the pure nodes of each part, and what is dead after the part."""
    wanted = {v for r in graph.results for v in values_in(r)}
    last: dict[Value, Part] = dict.fromkeys(graph.params, parts[-1])
    for part in parts:
        for node in (*part.nodes, *(call for _, call in part.calls)):
            last.update(dict.fromkeys((*node.needs(), *node.outputs), part))
    places = {v: i for i, v in enumerate(graph.params) if v.type is TENSOR}
    for part in parts:
        read = {v for node in (*part.nodes, *(call for _, call in part.calls)) for v in node.needs()}
        part.tensors = tuple(sorted(places.pop(v) for v in read if v in places))
        called = {v for _, call in part.calls for v in call.inputs()}
        part.outputs = tuple(
            [v for node in part.nodes for v in node.outputs if v in called or v in wanted or last[v] is not part]
        )
    uses = Counter(v for node in graph.nodes for v in node.needs())
    for part in parts:
        own_values = {v for node in part.nodes for v in node.outputs}
        part.given = {
            v for _, call in part.calls if call.op is ACCUMULATE_LEAF for v in call.inputs()
            if v in own_values and v not in wanted and uses[v] == 1
        }
    by_calls = {v for node in graph.nodes if node.op.effect == "python" for v in (*node.needs(), *node.outputs)}
    makers = {v: part for part in parts for node in part.nodes for v in node.outputs}
    for value, part in last.items():
        if value not in wanted and (value in by_calls or (value.type is TENSOR and makers.get(value) is not part)):
            (part.dead if value in by_calls else part.inner).append(value)


def runs_user_code(call: Node) -> bool:
    """Whether a call of Python is, or follows on, code of the user's: all but a leaf without hooks."""
    return call.op is not ACCUMULATE_LEAF or bool(call.arg("calls_hooks"))


class PartEvaluator(TensorEvaluator):
    """Evaluates nodes of a captured backward with tensors. evaluate: the results of one without blocks."""

    def __init__(self, evaluate: Callable[[Node, tuple[Any, ...]], Sequence[Any]]) -> None:
        super().__init__()
        self._evaluate = evaluate

    def operator(self, node: Node, args: tuple[Any, ...]) -> Sequence[Any]:
        """The results of a node."""
        return self._evaluate(node, args)


def interpret_part(part: Part, evaluate: Callable[[Node, tuple[Any, ...]], Sequence[Any]] = evaluate_as) -> Run:
    """Run the pure nodes of a part one by one, with tensors."""
    evaluator, block = PartEvaluator(evaluate), Block((), tuple(part.nodes), tuple(part.outputs))

    def run(values: Values) -> bool:
        evaluator.evaluate_block(block, (), values)
        return False

    return run
