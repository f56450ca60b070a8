"""Backward calls as one entry of a trace. What the engine computes for a graph of autograd's nodes is recorded once, as
a rule (rules.py) of the seeds and the saved values, by the nodes' kinds and edges and what gradients look like. What
hooks (those on saved tensors too), functions of users or writes through views have a part in is left to the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from weft.autograd.accumulate import AccumulateGrad, gradient_of, is_row_major, laid_out_like
from weft.autograd.engine import Walk, install
from weft.autograd.evaluator import Evaluator
from weft.autograd.node import Edge, Node, OpNode
from weft.autograd.saved import SavedTensor
from weft.lazy.device import LazyDevice
from weft.lazy.inline.graphs import learn_graph
from weft.lazy.inline.writer import note
from weft.lazy.payload import LazyPayload
from weft.lazy.recording import Unrecordable
from weft.lazy.rules import Rules
from weft.ops.backward import apply_functional
from weft.ops.overrides import plain_kinds
from weft.ops.packet import aten
from weft.support.errors import WeftError
from weft.tensor.tensor import Tensor

_sequence = attrgetter("sequence")
_NUMBERS = frozenset((int, float, bool))


class Graph:
    """The graph behind some roots, and the values that its formulas take: the seeds, and what each node saved. Nodes of
    operators, the latest first, as a backward call takes them; then leaves.

    key: what the gradients are a function of, but for these values: kinds of nodes, edges, and what gradients look like
    """

    def __init__(self, roots: Sequence[Edge], seeds: Sequence[Tensor]) -> None:
        """Raises Unrecordable where the engine has to walk: somebody listens, or not all nodes are operators'."""
        self.roots = roots
        nodes: list[Any] = []
        leaves: list[AccumulateGrad] = []
        places: dict[Any, int] = dict.fromkeys([node for node, _ in roots], 0)
        reached = list(places)
        for node in reached:  # more come while it goes on
            if node.hook_tables is not None and has_hooks(node):
                raise Unrecordable("hooks")
            if type(node) is AccumulateGrad:
                leaves.append(node)
                continue
            if not isinstance(node, OpNode) or node.saved_values is None:
                raise Unrecordable("it is no operator's, or was freed")
            nodes.append(node)
            for edge in node.edges:
                if edge is not None and edge[0] not in places:
                    places[edge[0]] = 0
                    reached.append(edge[0])
        nodes.sort(key=_sequence, reverse=True)
        self.nodes, self.leaves, self.counts = nodes, leaves, list[int]()
        for place, node in enumerate((*nodes, *leaves)):
            places[node] = place
        self.values: list[Any] = list(seeds)
        key: list[Any] = [len(nodes), len(roots)]
        for node, index in roots:
            key += (places[node], index)
        for node in nodes:
            edges, saved_values = node.edges, node.saved_values
            key += (type(node), node.argument_counts, node.metadata_of_inputs, len(edges))
            for edge in edges:
                if edge is None:
                    key.append(None)
                else:
                    key += (places[edge[0]], edge[1])
            self.counts.append(len(saved_values))
            for saved in saved_values:
                kind = type(saved)
                if kind is SavedTensor or (kind is tuple and not _NUMBERS.issuperset(map(type, saved))):
                    saved = _shown(saved, node)
                self.values.append(saved)
        key += map(_look, leaves)
        self.key = key

    def gradients(self, *values: Any) -> tuple[Any, ...]:
        """The gradients of the leaves from such values, computed by the engine."""
        count = len(self.roots)
        rest = iter(values[count:])
        saved = [tuple([next(rest) for _ in range(each)]) for each in self.counts]
        with install(_OnValues(dict(zip(self.nodes, saved, strict=True)))):
            wanted: list[Edge] = [(leaf, 0) for leaf in self.leaves]
            walk = Walk(list(self.roots), list(values[:count]), True, False, wanted, False)
            return _kept(self.leaves, walk.run(), values)


def _shown(saved: Any, node: Node) -> Any:
    """A saved value, by what it shows. Hooks on saved tensors are heard in one run of the node."""
    if type(saved) is tuple:
        return tuple([_shown(v, node) for v in saved])
    if type(saved) is not SavedTensor:
        return saved
    if saved.unpack_hook is not None:
        raise Unrecordable("hooks on saved tensors")
    return saved.shown(node)


def has_hooks(node: Node) -> bool:
    """Whether somebody hears of a node's gradients."""
    return bool(node.tensor_hooks or node.retain_hooks or node.pre_hooks or node.post_hooks)


def _look(leaf: AccumulateGrad) -> tuple[Any, Any, bool]:
    """What gradients of a leaf look like: their types, the strides they are kept with (None: row-major), and whether
    they are added to others. Raises Unrecordable where somebody hears when the leaf takes its gradient, or its class
    takes calls over.
    """
    variable = leaf.variable
    if variable is None:
        return leaf.metadata_of_inputs, None, True
    state = variable._autograd
    if state is None or state.post_accumulate or type(variable) not in plain_kinds:
        raise Unrecordable("hooks")
    data = variable._data
    is_whole = type(data) is LazyPayload and data.permuted is False and not data.path
    strides = None if is_whole or is_row_major(variable) else variable.geometry().strides
    return leaf.metadata_of_inputs, strides, state.grad is not None


def _kept(leaves: Sequence[AccumulateGrad], gradients: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients as leaves keep them: in an order in memory of their own, and none shares it with another one, or
    with an operand.
    """
    taken = {id(v._data.storage) for v in values if isinstance(v, Tensor)}
    kept: list[Any] = []
    for leaf, gradient in zip(leaves, gradients, strict=True):
        variable = leaf.variable
        if gradient is not None and variable is not None and gradient_of(variable) is None:
            gradient = laid_out_like(variable, gradient)
        if gradient is not None and id(gradient._data.storage) in taken:
            gradient = aten.clone(gradient)
        if gradient is not None:
            taken.add(id(gradient._data.storage))
        kept.append(gradient)
    return tuple(kept)


class _OnValues(Evaluator):
    """Nodes with other values in place of what they saved."""

    def __init__(self, saved: dict[Node, tuple[Any, ...]]) -> None:
        self.saved = saved

    def run(self, node: Any, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The gradients of a node's edges."""
        if True not in needs:
            return (None,) * len(needs)
        wanted = node.needs_per_argument(needs)
        gradients: tuple[Any, ...] = node.spread(apply_functional(node.plan, grads, wanted, self.saved[node]))
        return gradients


def run_graph(device: LazyDevice, rules: Rules, roots: Sequence[Edge], seeds: Sequence[Tensor], keep: bool) -> bool:
    """Whether a backward call was run as one entry of the trace."""
    trace = device.trace
    learnt = trace.state.inline.get(run_graph)
    if learnt is not None and any(cache(roots, seeds, keep) is True for cache in learnt.caches):
        return True
    try:
        graph = Graph(roots, seeds)
    except WeftError:  # also for a value that was saved and is not what it was: the engine says so in its turn
        return False
    recorded = rules.of_graph(graph.key, graph.gradients, graph.values)
    if recorded is None:
        return False
    replay, operands = recorded
    at, nodes = trace.point(), [*graph.nodes, *graph.leaves]
    gradients = rules.results(replay, operands)
    note(trace, at, run_graph, lambda: learn_graph(device, at, roots, seeds, nodes, replay))
    for leaf, gradient in zip(graph.leaves, gradients, strict=True):
        if gradient is not None:
            leaf.take(gradient)
    if not keep:
        for node in graph.nodes:
            node.release()
    return True
