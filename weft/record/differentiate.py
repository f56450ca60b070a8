"""differentiate: a graph that also gives gradients of its results. The graph is run with symbolic tensors,
and the ordinary engine walks back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.autograd.engine import run_between
from weft.autograd.node import Edge
from weft.autograd.record import gradient_edge
from weft.ir.builder import Builder, Handle
from weft.ir.evaluate import Evaluator, Values
from weft.ir.graph import Graph, Node, Operand, Value
from weft.ir.opaque import CALL_FUNCTION
from weft.ir.structure import ENDLESS
from weft.ops.packet import aten
from weft.ops.route import call
from weft.passes.open_opaque import open_opaque
from weft.record.blocks.branches import choose
from weft.record.blocks.function_rules import called_function
from weft.record.blocks.loops import Outcome, repeat
from weft.record.blocks.recorded import record, tensor_of, zeros_at
from weft.record.capture import Capture
from weft.record.numbers.lifted import NumberGuard
from weft.support.errors import StateError
from weft.tensor.modes import enable_grad, modes, no_grad
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import TensorType


def differentiate(graph: Graph, of: Sequence[int] = (0,), wrt: Sequence[int] | None = None) -> Graph:
    """The graph with gradients behind its results: of the sum of all elements of the results `of`,
    for each parameter in `wrt`.

    wrt: positions of parameters; default every tensor of floating point or complex dtype. A gradient has the type of
    its parameter, zeros where the results do not depend on it. Raises StateError for a result that has no derivative.
    """
    graph = open_opaque(graph)
    wanted = [i for i, p in enumerate(graph.params) if is_differentiable(p)] if wrt is None else list(wrt)
    for position in of:
        if not is_differentiable(graph.results[position]):
            raise StateError(f"result {position} of @{graph.name} has no derivative: it is {graph.results[position]!r}")
    with _on_stand_ins(graph, wanted) as (capture, results, receivers):
        seeds = {i: aten.ones_like(results[i].detach()) for i in of}
        by_receiver = _walk_back(results, seeds, receivers)
        gradients = [zeros_at(capture, e) if g is None else g for e, g in zip(receivers, by_receiver, strict=True)]
        joint = capture.recorder.builder.graph(capture.tensors.operand((*results, *gradients)), graph.writes)
    return open_opaque(joint)


@dataclass(frozen=True, eq=False)
class Joint:
    """A graph with the gradients of its results behind them, for tangents that are further parameters.

    tangents: positions of the results that have one, in the order of the parameters. gradients: positions of the
    parameters that get one, in the order of the results; a parameter that no result depends on gets none.
    start: how many nodes are the forward's, calls of Functions left out. guards: what formulas asked of numbers (by
    number_key).
    """

    graph: Graph
    tangents: tuple[int, ...]
    gradients: tuple[int, ...]
    start: int
    guards: tuple[NumberGuard, ...]


def with_gradients(graph: Graph, wrt: Sequence[int], numbers: Mapping[int, float]) -> Joint:
    """The graph with gradients for the parameters `wrt`, behind its results. numbers: what the parameters that are
    numbers of Python's are in the example."""
    graph = open_opaque(graph)
    with _on_stand_ins(graph, wrt, numbers) as (capture, results, receivers):
        builder = capture.recorder.builder
        start = sum(node.op is not CALL_FUNCTION for node in builder.nodes)
        flowing = [i for i, r in enumerate(results) if isinstance(r, Tensor) and gradient_edge(r) is not None]
        seeds = {
            i: capture.tensors.fresh(builder.param(capture.tensors.payload_of(results[i]).type, f"tangent{i}"))
            for i in flowing
        }
        by_receiver = _walk_back(results, seeds, receivers)
        there = [(i, g) for i, g in zip(wrt, by_receiver, strict=True) if g is not None]
        joint = builder.graph(capture.tensors.operand((*results, *(g for _, g in there))))
        guards = tuple(capture.python_state.number_guards)
    return Joint(joint, tuple(flowing), tuple([i for i, _ in there]), start, guards)


def number_key(place: int) -> str:
    """The name of a parameter that is a number, among the symbols that guards on numbers ask for."""
    return f"number{place}"


@contextmanager
def _on_stand_ins(
    graph: Graph, wrt: Sequence[int], numbers: Mapping[int, float] | None = None
) -> Iterator[tuple[Capture, tuple[Any, ...], list[Edge]]]:
    """Run a graph with symbolic tensors under a capture: its results, and where the gradients of `wrt` flow."""
    capture = Capture(graph.name, graph.env)
    capture.evaluator.is_for_callers = True  # the backward that is recorded is no call of anybody's
    builder = capture.recorder.builder
    builder.track_locations = False
    with capture.active(), enable_grad():
        inputs = [tensor_of(capture, builder.param(p.type, p.name)) for p in graph.params]
        for i, number in (numbers or {}).items():
            inputs[i] = capture.python_state.stand_in(builder.params[i], number_key(i), number)
        for i in wrt:
            inputs[i].requires_grad_()
        results = RecordingEvaluator(capture).evaluate_block(graph.block, inputs, {})
        edges = [gradient_edge(inputs[i]) for i in wrt]
        yield capture, tuple(results), [e for e in edges if e is not None]


def _walk_back(results: Sequence[Any], seeds: Mapping[int, Tensor], receivers: list[Edge]) -> tuple[Any, ...]:
    """The gradients that arrive at the receivers when the engine starts at some results."""
    starts = [(gradient_edge(results[i]), seed) for i, seed in seeds.items()]
    roots = [(edge, seed) for edge, seed in starts if edge is not None]
    with no_grad():
        return run_between([edge for edge, _ in roots], [seed for _, seed in roots], receivers, receivers)


def is_differentiable(operand: Operand) -> bool:
    """Whether an operand is a tensor that may have a gradient."""
    kind = operand.type if isinstance(operand, Value) else None
    return isinstance(kind, TensorType) and kind.dtype is not None and kind.dtype.is_differentiable


class RecordingEvaluator(Evaluator):
    """Runs a graph's operators with symbolic tensors, as the program that was recorded would, under a capture.
    Sizes stay symbols."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self.capture = capture

    def operand(self, operand: Operand, values: Mapping[Value, Any]) -> Any:
        """What an operand stands for."""
        if type(operand) is tuple:
            return tuple([self.operand(part, values) for part in operand])
        return values[operand] if type(operand) is Value else operand

    def bind(self, value: Value, result: Any) -> None:
        """What stands for a value is called as it is."""
        if isinstance(result, Tensor):
            self.capture.tensors.operand(result).name = value.name

    def evaluate_node(self, node: Node, values: Values) -> None:
        """Record what a node does, at its line."""
        builder = self.capture.recorder.builder
        before, builder.where = builder.where, node.where
        results = self.results(node, values)
        self.capture.recorder.builder.where = before
        for value, result in zip(node.outputs, results, strict=True):
            values[value] = result
            self.bind(value, result)

    def operator(self, node: Node, args: tuple[Any, ...]) -> Sequence[Any]:
        """The results of a node: through autograd where a gradient may be wanted, else as it was written."""
        builder = self.capture.recorder.builder
        if node.op is not CALL_FUNCTION and modes.grad and any(map(_wants_grad, args)) and (
            node.op.is_differentiable or node.op.opens_above_autograd
        ):
            with builder.keeping_sizes(node):  # other nodes go by the sizes that it finds
                out = call(node.op, args)
            return out if isinstance(out, (tuple, list)) else (out,)
        emitted = builder.emit_raw(node.op, self.capture.tensors.operand(args), tuple([v.type for v in node.outputs]))
        outputs = [tensor_of(self.capture, v) for v in emitted.outputs]
        return called_function(self.evaluate, outputs, *args[1:]) if node.op is CALL_FUNCTION else outputs

    def branch(self, node: Node, values: Values) -> Sequence[Any]:
        """Both branches are recorded."""
        true, false = (
            record(self.capture, lambda _, b=b: self.evaluate_block(b, (), values)) for b in node.blocks  # type: ignore[misc]
        )
        return choose(self.capture, self.operand(node.args[0], values), (true, false), where=node.where)

    def loop(self, node: Node, values: Values) -> Sequence[Any]:
        """A step is recorded; steps are counted where no number of them is given: the backward makes as many."""
        (block,) = node.blocks
        trip, condition, carried, xs, reverse = (self.operand(a, values) for a in node.args)
        own = len(carried)
        is_counted = not isinstance(trip, int) or trip < ENDLESS
        constant = self.capture.recorder.builder.constant
        counts = () if is_counted else (self.capture.tensors.fresh(constant(np.array(0))),)

        def body(inner: Builder, index: Value, states: list[Tensor], slices: list[Tensor]) -> Outcome:
            arguments = (Handle(index, inner), *states[:own], *slices)
            following, *results = self.evaluate_block(block, arguments, values)
            return following, [*results[:own], *(count + 1 for count in states[own:])], results[own:]

        results = repeat(
            self.capture, trip, condition, [*carried, *counts], xs, reverse, body, where=node.where,
            counter=None if is_counted else own,
        )
        return [*results[:own], *results[own + len(counts) :]]


def _wants_grad(value: Any) -> bool:
    return any(map(_wants_grad, value)) if type(value) is tuple else isinstance(value, Tensor) and value.requires_grad
