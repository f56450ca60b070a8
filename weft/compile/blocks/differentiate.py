"""differentiate: a graph that also gives gradients of its results. The graph is run with symbolic tensors,
and the ordinary engine walks back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weft.autograd.engine import run_between
from weft.autograd.node import Edge
from weft.autograd.record import gradient_edge
from weft.compile.blocks.branches import choose
from weft.compile.blocks.function_rules import called_function
from weft.compile.blocks.loops import ENDLESS, Outcome, repeat
from weft.compile.blocks.recorded import record, tensor_of, zeros_at
from weft.compile.capture.capture import Capture
from weft.compile.numbers.lifted import NumberGuard
from weft.ir.builder import Builder, Handle
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.opaque import CALL_FUNCTION
from weft.ir.structure import IF, LOOP
from weft.ops.packet import aten
from weft.ops.route import call
from weft.passes.open_opaque import open_opaque
from weft.support.errors import StateError
from weft.tensor.modes import enable_grad, modes, no_grad
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import TensorType

Env = dict[Value, Any]


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
        found = _walk_back(results, seeds, receivers)
        gradients = [zeros_at(capture, e) if g is None else g for e, g in zip(receivers, found, strict=True)]
        made = capture.recorder.builder.graph(capture.tensors.operand((*results, *gradients)), graph.writes)
    return open_opaque(made)


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
        found = _walk_back(results, seeds, receivers)
        there = [(i, g) for i, g in zip(wrt, found, strict=True) if g is not None]
        made = builder.graph(capture.tensors.operand((*results, *(g for _, g in there))))
        guards = tuple(capture.python_state.number_guards)
    return Joint(made, tuple(flowing), tuple([i for i, _ in there]), start, guards)


def number_key(place: int) -> str:
    """The name of a parameter that is a number, among the symbols that guards on numbers ask for."""
    return f"number{place}"


@contextmanager
def _on_stand_ins(
    graph: Graph, wrt: Sequence[int], numbers: Mapping[int, float] | None = None
) -> Iterator[tuple[Capture, tuple[Any, ...], list[Edge]]]:
    """Run a graph with symbolic tensors under a capture: its results, and where the gradients of `wrt` flow."""
    capture = Capture(graph.name, graph.env)
    builder = capture.recorder.builder
    builder.track_locations = False
    with capture.active(), enable_grad():
        env: Env = {p: tensor_of(capture, builder.param(p.type, p.name)) for p in graph.params}
        for i, number in (numbers or {}).items():
            env[graph.params[i]] = capture.python_state.stand_in(builder.params[i], number_key(i), number)
        for i in wrt:
            env[graph.params[i]].requires_grad_()
        _run(capture, graph.nodes, env)
        edges = [gradient_edge(env[graph.params[i]]) for i in wrt]
        yield capture, tuple([_at(env, r) for r in graph.results]), [e for e in edges if e is not None]


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


def _at(env: Env, operand: Operand) -> Any:
    if isinstance(operand, Value):
        return env[operand]
    return tuple([_at(env, part) for part in operand]) if type(operand) is tuple else operand


def _run(capture: Capture, nodes: Sequence[Node], env: Env) -> None:
    """Run nodes with symbolic tensors, as the program that was recorded would:
    `env` holds what stands for their values."""
    for node in nodes:
        before, capture.recorder.builder.where = capture.recorder.builder.where, node.where
        results = _results(capture, node, tuple([_at(env, a) for a in node.args]), env)
        capture.recorder.builder.where = before
        for value, result in zip(node.outputs, results, strict=True):
            env[value] = result
            if isinstance(result, Tensor):
                capture.tensors.operand(result).name = value.name


def _results(capture: Capture, node: Node, args: tuple[Any, ...], env: Env) -> Sequence[Any]:
    if node.op is IF:
        true, false = (record(capture, lambda _, b=b: _run_block(capture, b, env)) for b in node.blocks)  # type: ignore[misc]
        return choose(capture, args[0], (true, false), where=node.where)
    if node.op is LOOP:
        return _loop(capture, node, args, env)
    if node.op is CALL_FUNCTION:
        emitted = capture.recorder.builder.emit_raw(
            node.op, capture.tensors.operand(args), tuple([v.type for v in node.outputs])
        )
        outputs = [tensor_of(capture, v) for v in emitted.outputs]
        return called_function(partial(_run_graph, capture), outputs, *args[1:])
    has_formulas = node.op.is_differentiable or node.op.opens_above_autograd
    if modes.grad and has_formulas and any(_wants_grad(a) for a in args):
        with capture.recorder.builder.keeping_sizes(node):  # other nodes go by the sizes that it finds
            out = call(node.op, args)
        return out if isinstance(out, (tuple, list)) else (out,)
    made = capture.recorder.builder.emit_raw(
        node.op, capture.tensors.operand(args), tuple([v.type for v in node.outputs])
    )
    return [tensor_of(capture, v) for v in made.outputs]


def _run_graph(capture: Capture, graph: Graph, given: Sequence[Any]) -> list[Any]:
    env = dict(zip(graph.params, given, strict=True))
    _run(capture, graph.nodes, env)
    return [_at(env, r) for r in graph.results]


def _wants_grad(value: Any) -> bool:
    return any(map(_wants_grad, value)) if type(value) is tuple else isinstance(value, Tensor) and value.requires_grad


def _run_block(capture: Capture, block: Block, env: Env) -> list[Any]:
    inner = dict(env)
    _run(capture, block.nodes, inner)
    return [_at(inner, r) for r in block.results]


def _loop(capture: Capture, node: Node, args: tuple[Any, ...], env: Env) -> list[Tensor]:
    """A loop, with its steps counted where no number of them is given: its backward makes as many."""
    (block,) = node.blocks
    trip, condition, carried, xs, reverse = args
    own = len(carried)
    is_counted = not isinstance(trip, int) or trip < ENDLESS
    counts = () if is_counted else (capture.tensors.fresh(capture.recorder.builder.constant(np.array(0))),)

    def body(inner: Builder, index: Value, states: list[Tensor], slices: list[Tensor]) -> Outcome:
        given = dict(zip(block.params, (Handle(index, inner), *states[:own], *slices), strict=True))
        following, *results = _run_block(capture, block, {**env, **given})
        return following, [*results[:own], *(count + 1 for count in states[own:])], results[own:]

    found = repeat(
        capture, trip, condition, [*carried, *counts], xs, reverse, body, where=node.where,
        counter=None if is_counted else own,
    )
    return [*found[:own], *found[own + len(counts) :]]
