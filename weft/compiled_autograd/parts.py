"""The parts of a captured backward: pure nodes, each followed by the calls of Python that come after it.

A call that accumulates into a leaf without hooks gives nothing to anybody: it waits for the end of its part
instead of ending it. Where much memory is at stake a part ends after a few leaves all the same, so that what was
saved for them is let go of before the gradients of the next ones are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.compiled_autograd.evaluate import evaluate_as
from weft.ir import graph_breaks
from weft.ir.backward_calls import ACCUMULATE_LEAF
from weft.ir.graph import Block, Graph, Node, Value
from weft.ir.graph_breaks import Part, Uses
from weft.ir.opaque import plan_of_opaque
from weft.programs.on_tensors import TensorEvaluator
from weft.types.tensor_type import TENSOR

Values = dict[Value, Any]
Run = Callable[[Values], bool]  # computes the pure nodes of a part; True: each result has memory of its own
FORMULAS = 2  # in a short part


@dataclass(eq=False)
class BackwardPart(Part):
    """A part of a captured backward.

    is_piece: whether memory is at stake: nothing is kept between calls. is_short: whether it is between calls of Python
    and has very few formulas. tensors: parameters of the graph that are first read here, by place. dead_before_calls:
    tensors of before it that nobody reads once its pure nodes are done; dead_after_calls: what nobody reads once all of
    it is done. for_leaves: results of its pure nodes that a leaf alone reads.
    """

    is_piece: bool = False
    is_short: bool = False
    tensors: tuple[int, ...] = ()
    dead_before_calls: list[Value] = field(default_factory=list)
    dead_after_calls: list[Value] = field(default_factory=list)
    for_leaves: set[Value] = field(default_factory=set)


def parts_of(graph: Graph, uses: Uses, leaves: int | None = None, start: int = 0) -> list[BackwardPart]:
    """The parts of a captured backward. leaves: how many gradients are accumulated at the end of a part at most;
    start: the number of a node that begins one."""
    parts = graph_breaks.parts_of(graph, uses, runs_user_code, leaves, start)
    of_calls = {v for part in parts for call in part.calls for v in (*call.node.needs(), *call.node.outputs)}
    owners = [part for part in parts for _ in range(part.first, part.last)]
    first_reads: dict[Part, list[int]] = {part: [] for part in parts}
    for i, param in enumerate(graph.params):
        if param.type is TENSOR and param in uses and uses[param][0] < len(owners):
            first_reads[owners[uses[param][0]]].append(i)
    return [
        _backward_part(part, uses, of_calls, tuple(first_reads[part]), leaves is not None, len(parts) > 1)
        for part in parts
    ]


def _backward_part(
    part: Part, uses: Uses, of_calls: set[Value], tensors: tuple[int, ...], is_piece: bool, has_others: bool
) -> BackwardPart:
    own_values = {v for node in part.nodes for v in node.outputs}
    return BackwardPart(
        **vars(part), is_piece=is_piece, is_short=has_others and is_short(part.nodes), tensors=tensors,
        dead_before_calls=[v for v in part.dead if v not in of_calls and v.type is TENSOR and v not in own_values],
        dead_after_calls=[v for v in part.dead if v in of_calls],
        for_leaves={
            v for call in part.calls if call.node.op is ACCUMULATE_LEAF for v in call.node.inputs()
            if v in own_values and uses[v] == [call.number]
        },
    )


def is_short(nodes: Sequence[Node]) -> bool:
    """Whether a part has so few formulas, and nothing but what is done around them."""
    return sum(plan_of_opaque(node.op) is not None for node in nodes) <= FORMULAS and not any(n.blocks for n in nodes)


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


def interpret_part(part: BackwardPart, evaluate: Callable[[Node, tuple[Any, ...]], Sequence[Any]] = evaluate_as) -> Run:
    """Run the pure nodes of a part one by one, with tensors."""
    evaluator, block = PartEvaluator(evaluate), Block((), tuple(part.nodes), tuple(part.outputs))

    def run(values: Values) -> bool:
        evaluator.evaluate_block(block, (), values)
        return False

    return run
