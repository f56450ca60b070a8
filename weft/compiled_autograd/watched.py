"""Anomaly mode: a captured backward run call by call, each in the name of the node that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft.ir.graph as ir
from weft.autograd.anomaly import anomaly, check_nan, describe_failure, evaluating
from weft.autograd.node import Node, OpNode
from weft.autograd.views import CopySlices
from weft.compiled_autograd.evaluate import Results, Undefined, evaluate, evaluate_as
from weft.compiled_autograd.part_code import Progress
from weft.compiled_autograd.parts import interpret_part
from weft.compiled_autograd.program import Diverged, Program
from weft.compiled_autograd.recording import Recording
from weft.ir.backward_calls import ACCUMULATE_LEAF, CALL_BACKWARD, EPILOGUE, PROLOGUE
from weft.ir.opaque import plan_of_opaque
from weft.ops.op import Op
from weft.programs.tensor_program import ProgramBackward

_OF_NODES = {ACCUMULATE_LEAF, CALL_BACKWARD, EPILOGUE, PROLOGUE}  # calls that are a node's own, not hooks on it


class Watched(Program):
    """A captured graph that names the node whose call fails or gives a NaN, and the line of its forward."""

    def __init__(self, recording: Recording, live: Sequence[Node]) -> None:
        """live: the nodes of the walk by place."""
        graph = recording.graph
        self._origins = {node: live[place] for node, place in zip(graph.nodes, recording.owners, strict=True)}
        # what is in blocks is a part of the call that has them
        self._inner = {
            inner: origin for node, origin in self._origins.items() for block in node.blocks for inner in block.walk()
        }
        # of what inlined programs give, which gradient of its node it is
        self._edges = {graph.nodes[number]: edge for number, edge in recording.edges.items()}
        super().__init__(graph, lambda part: interpret_part(part, self._pure))

    def __call__(
        self, inputs: list[Any], progress: Progress | None = None, resumed: Diverged | None = None
    ) -> list[Any]:
        """Run, once: the live nodes are let go of then, without waiting for the garbage collector."""
        try:
            return super().__call__(inputs, progress, resumed)
        finally:
            self._origins.clear()
            self._inner.clear()

    def _pure(self, node: ir.Node, args: tuple[Any, ...]) -> Results:
        if node in self._inner:
            return _in_the_name_of(self._inner[node], node, args, evaluate_as)
        if node.op in _OF_NODES or plan_of_opaque(node.op) is not None:
            return self._watched(node, args, evaluate_as)
        origin = self._origins[node]
        if not isinstance(origin, ProgramBackward):
            return evaluate_as(node, args)  # sums and checks between nodes
        if anomaly.check_nan and node in self._edges:
            check_nan(origin, (*[None] * self._edges[node], args[0]))
        return _in_the_name_of(origin, node, args, evaluate_as)

    def called(self, call: ir.Node) -> tuple[Callable[..., Any], bool]:
        """What gives the results of a call of Python, in the name of its node unless it is a hook."""
        if call.op not in _OF_NODES:
            return super().called(call)
        return lambda *args: self._watched(call, args, _evaluate_called), False

    def _watched(
        self, node: ir.Node, args: tuple[Any, ...], run: Callable[[ir.Node, tuple[Any, ...]], Results]
    ) -> Results:
        origin = self._origins[node]
        results = _in_the_name_of(origin, node, args, run)
        if anomaly.check_nan and node.op is not PROLOGUE:
            check_nan(origin, _by_edge(origin, node.op, args, results))
        return results


def _evaluate_called(node: ir.Node, args: tuple[Any, ...]) -> Results:
    """The results of a call of Python."""
    return evaluate(node.op, args)


def _in_the_name_of(
    origin: Node, node: ir.Node, args: tuple[Any, ...], run: Callable[[ir.Node, tuple[Any, ...]], Results]
) -> Results:
    try:
        with evaluating(origin):
            return run(node, args)
    except Undefined:
        raise
    except Exception as error:
        describe_failure(origin, error)
        raise


def _by_edge(origin: Node, op: Op, args: tuple[Any, ...], results: Results) -> Results:
    """The results of a formula as its node's edges have them: None where no gradient is wanted."""
    inner = origin.inner if type(origin) is CopySlices else origin
    if plan_of_opaque(op) is None or not isinstance(inner, OpNode):
        return results
    remaining, out = iter(results), []
    for count, is_wanted in zip(inner.argument_counts, args[1], strict=True):
        out += [next(remaining) if is_wanted else None for _ in range(count)]
    if type(origin) is CopySlices and origin.self_slot is not None:
        out.insert(0, out.pop(origin.self_slot))
    return tuple(out)
