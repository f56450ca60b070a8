"""The backward of a captured forward, recorded behind it: from which results to which tensors gradients flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from weft.autograd import engine
from weft.autograd.accumulate import AccumulateGrad, accumulator_of
from weft.autograd.dependencies import nodes_behind, runs_on_nothing
from weft.autograd.function import FunctionNode
from weft.autograd.node import GradientEdge, Node, OpNode
from weft.autograd.record import gradient_edge
from weft.autograd.views import CopySlices
from weft.ir.graph import Value
from weft.ir.opaque import forward_nodes
from weft.programs.argument_histories import end_at_what_is_given
from weft.programs.arguments import leaf_of
from weft.programs.freed import Saving, bits_of
from weft.programs.inner_results import InnerResult, inner_result, places_of_inner
from weft.record.blocks.recorded import ControlBackward
from weft.record.capture import Capture
from weft.record.flags import all_required
from weft.record.older_histories import Given
from weft.record.symbolic import SymbolicPayload
from weft.record.wrappers import UnwrapBackward, desugar
from weft.support import pytree
from weft.support.errors import CaptureError, StateError
from weft.tensor.tensor import Tensor


@dataclass(eq=False)
class JointRecord:
    """What the joint capture found: which results carry gradients, which tensors receive them, and how many tangents
    there are.

    start: how many nodes had been recorded before the backward. places: which argument a receiver is, where it took
    part as itself (arguments that share memory have no stand-ins). params: the parameter of the program as which it
    came, where an argument had a stand-in. returned: which result a receiver is, where the
    function made it. A leaf that it makes and keeps to itself is no receiver: nobody can see its `.grad`. reach: for
    each output the receivers that it depends on; leads: with those that custom Functions give no gradient. saving: the
    nodes that save something, which eager mode frees. gives_once: whether a custom Function refuses a second gradient.
    inner: the outputs that others are computed from, the latest first. has_users: whether hooks and rules of users took
    part.
    """

    outputs: list[Tensor]
    primals: list[Tensor]
    places: list[int | None]
    params: list[int | None]
    returned: list[int | None]
    tangents: int
    reach: list[frozenset[int]]
    leads: list[frozenset[int]]
    saving: Saving
    spec: pytree.TreeSpec  # of the gradients: a list, in which those that are wrapper subclasses are taken apart
    start: int
    gives_once: bool
    inner: list[InnerResult]
    has_users: bool


def unfinished(capture: Capture, leaves: list[Any]) -> list[Tensor]:
    """Returned tensors whose backward can be run: none of the nodes behind them was freed by a run of the function's
    own."""
    unfinished_by_id: dict[int, Tensor] = {}
    for leaf in leaves:
        if isinstance(leaf, Tensor) and type(leaf._data) is SymbolicPayload:
            node = history_of(leaf)
            if node is not None and type(node) is not Given and not _is_freed(capture, node):
                unfinished_by_id[id(leaf)] = leaf
    return list(unfinished_by_id.values())


def is_spent(capture: Capture, leaf: Any) -> bool:
    """Whether a tensor has a history, some of which the function has run backward through and not kept."""
    if not isinstance(leaf, Tensor) or type(leaf._data) is not SymbolicPayload or not leaf.requires_grad:
        return False
    node = history_of(leaf)
    return node is not None and _is_freed(capture, node)


def _is_freed(capture: Capture, node: Any) -> bool:
    return any(n.is_freed for n in nodes_behind([node], capture.outside.histories))


def history_of(leaf: Tensor) -> Any:
    """The node of a returned tensor; None where autograd refuses to say (one of several views whose base
    was written since)."""
    try:
        node = leaf._node
    except StateError:
        return None
    while isinstance(node, UnwrapBackward):  # a part of a returned wrapper
        edge: Any = node.edges[0]
        node = edge[0]
    return node


def made_leaves(capture: Capture, results: list[Any]) -> list[int]:
    """Which results are leaves that the function made and that require grad."""
    return [
        i for i, out in enumerate(results) if isinstance(out, Tensor) and _is_made(capture, out) and wants_own_grad(out)
    ]


def wants_own_grad(tensor: Tensor) -> bool:
    """Whether a tensor is a leaf that requires grad."""
    state = tensor._autograd
    return state is not None and state.requires_grad and state.node is None


def _is_made(capture: Capture, tensor: Tensor) -> bool:
    """Whether the function made a tensor, or made it a leaf that requires grad; others stand for what is there before
    it."""
    real = capture.outside.stand_ins.get(id(tensor))
    wants_more = real is not None and wants_own_grad(tensor) and not real.requires_grad
    return capture.outside.is_made(tensor) or (type(tensor._data) is SymbolicPayload and wants_more)


def record_backward(
    capture: Capture, outputs: list[Tensor], leaves: list[Any], results: list[Any], count: int
) -> tuple[JointRecord, list[Any]]:
    """Record the backward of `outputs` for symbolic tangents. count: how many of the results the function returned;
    others are what views of those are views of. Returns the record and the gradients' operands (None where there is
    none), behind them all of the gradients of inner results."""
    returned_ids = set(map(id, results[:count]))
    positions = {id(results[i]._autograd): i for i in made_leaves(capture, results)}  # (of a class, another object)
    capture.gradients.end_at_parts(outputs)
    endings = end_at_what_is_given(outputs, capture.outside.histories)
    primals = [p for p in _leaves_behind(outputs) if id(p._autograd) in positions or not _is_made(capture, p)]
    own = _leaves_of_the_function(outputs, primals)
    edges = [edge for out in outputs if (edge := gradient_edge(out)) is not None]  # (each has one)
    graphs = [nodes_behind([out._node]) for out in outputs]  # taken before the run frees them
    reached = [nodes_behind([edge]) for edge in edges]
    bits = bits_of(n for nodes in graphs for n in nodes if _saves(n))
    once = any(isinstance(n, FunctionNode) and n.gives_once for nodes in graphs for n in nodes)
    inner = [
        inner_result(
            outputs, graphs, bits, at, value,
            id(outputs[at]) in returned_ids or not capture.outside.is_made(outputs[at]),
        )
        for at in places_of_inner(outputs, graphs)
        if isinstance(value := capture.tensors.operand(outputs[at]), Value)
    ]
    builder = capture.recorder.builder
    start = len(builder.nodes)
    tangents = [builder.param(capture.tensors.payload_of(out).type, f"tangent{i}") for i, out in enumerate(outputs)]
    del builder.params[-len(tangents) :]  # they come last, behind what only hooks and custom Functions read
    seeds = [capture.tensors.fresh(value) for value in tangents]
    with all_required(primals), _without_hooks(primals), capture.writes.settled(results):
        asked = [*primals, *[outputs[one.output] for one in inner], *own]
        grads = engine.run_backward(outputs, seeds, False, False, asked, False) if asked else ()
    lines = forward_nodes(builder.nodes) if builder.track_locations else {}
    for node in builder.nodes[start:]:
        if node in lines:  # who will call backward() is not known
            node.where = lines[node].where
    builder.params.extend(tangents)
    end = len(primals) + len(inner)
    totals = [None if g is None else capture.tensors.operand(g) for g in grads[len(primals) : end]]
    kept = [(p, g) for p, g in zip(primals, grads, strict=False) if g is not None]
    parts, spec = pytree.flatten(desugar([g for _, g in kept]))
    if any(child.kind is not None for child in spec.children):  # (wrappers have histories of their own)
        inner, totals = [], []
    # behind them the leaves that custom Functions give nothing: their hooks hear that
    unfed = [p for p, g in zip(primals, grads, strict=False) if g is None] if capture.evaluator.given_none else []
    receivers = [*[p for p, _ in kept], *unfed]
    leads = [_receivers_in(nodes, receivers) for nodes in reached]
    given_none = capture.evaluator.given_none
    reach = leads if not given_none else [
        _receivers_in(nodes_behind([edge, *filter(runs_on_nothing, nodes)], without=given_none), receivers)
        for edge, nodes in zip(edges, reached, strict=True)
    ]
    saving = Saving(graphs, bits, receivers)
    received = [endings[id(p)][1] if id(p) in endings else p for p in receivers]
    places, returned = [leaf_of(p, leaves) for p in received], [positions.get(id(p._autograd)) for p in received]
    params = [p._data.storage.param if id(p) in capture.outside.stand_ins else None for p in received]
    record = JointRecord(
        outputs, received, places, params, returned, len(seeds), reach, leads, saving, spec, start, once, inner,
        bool(capture.evaluator.hooks or capture.evaluator.rules),
    )
    return record, [*[capture.tensors.operand(g) for g in parts], *totals]


@contextmanager
def _without_hooks(leaves: list[Tensor]) -> Iterator[None]:
    """Hooks of the leaves rest: they run at each call, when the eager engine hands them the gradients
    of the compiled backward."""
    nodes = [accumulator_of(leaf) for leaf in leaves]
    hooks = [node.tensor_hooks for node in nodes]
    for node in nodes:
        node.tensor_hooks = None
    try:
        yield
    finally:
        for node, own in zip(nodes, hooks, strict=True):
            node.tensor_hooks = own


def _leaves_behind(outputs: list[Tensor]) -> list[Tensor]:
    """The leaves that the outputs depend on, in a fixed order."""
    leaves: dict[int, Tensor] = {}
    for node in nodes_behind([out._node for out in outputs]):
        variable = node.variable if isinstance(node, AccumulateGrad) else None
        if variable is not None:
            leaves.setdefault(id(variable), variable)
    return list(leaves.values())


def _leaves_of_the_function(outputs: list[Tensor], primals: list[Tensor]) -> list[GradientEdge]:
    """Where gradients of leaves arrive that the function makes and keeps to itself, also of those that nobody holds any
    more: what users' code on the way to them does, callers see. Raises CaptureError where hooks wait for one."""
    primal_ids = set(map(id, primals))
    ends = [n for n in nodes_behind([out._node for out in outputs]) if isinstance(n, AccumulateGrad)]
    own = [node for node in ends if id(node.variable) not in primal_ids]
    if any(node.is_awaited for node in own):
        raise CaptureError(
            "a hook waits for the gradient of a leaf that the compiled function makes and keeps to itself "
            "(register_post_accumulate_grad_hook), and callers may run the backward: make the leaf outside, return it, "
            "or call backward() in the function"
        )
    return [GradientEdge(node, 0) for node in own]


def _receivers_in(nodes: Iterable[Node], receivers: Sequence[Tensor]) -> frozenset[int]:
    """Which receivers a graph leads to."""
    variables = {id(n.variable) for n in nodes if isinstance(n, AccumulateGrad)}
    return frozenset(i for i, receiver in enumerate(receivers) if id(receiver) in variables)


def _saves(node: Node) -> bool:
    """Whether a second backward through the node is an error in eager mode."""
    if isinstance(node, OpNode):
        return node.saves
    if isinstance(node, FunctionNode):
        return bool(node.ctx._saved)
    if isinstance(node, ControlBackward):
        return node.saves
    if isinstance(node, CopySlices):
        return _saves(node.inner)
    return not isinstance(node, (AccumulateGrad, UnwrapBackward, Given))
