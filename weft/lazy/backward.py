"""Backward calls as one entry of a trace. A graph of autograd's nodes that was met behind the same calls before is
recognised node by node, and what it computes is a recorded rule (rules.py) of the seeds and the saved values.

A graph is known by the kinds of its nodes, their edges, and what gradients look like there. What hooks (those on
saved tensors too), functions of users or writes through views have a part in is left to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.autograd.accumulate import AccumulateGrad, gradient_of, is_row_major, laid_out_like
from weft.autograd.dependencies import count_dependencies
from weft.autograd.engine import Walk, install
from weft.autograd.evaluator import Evaluator
from weft.autograd.node import Edge, Node, OpNode
from weft.autograd.saved import SavedTensor
from weft.lazy.device import LazyDevice
from weft.lazy.inline.graphs import learn_graph
from weft.lazy.inline.writer import note
from weft.lazy.rules import NOT_RECORDED, Rules
from weft.lazy.states import State
from weft.ops.backward import apply_functional
from weft.ops.overrides import plain_kinds
from weft.ops.packet import aten
from weft.support import limits
from weft.support.errors import WeftError
from weft.support.memo import Memo
from weft.tensor.tensor import Tensor

Target = tuple[int, int]  # the place of a node, and the number of its input


class Step(NamedTuple):
    """A node of an operator. counts: edges for each argument."""

    type: Any
    counts: tuple[int, ...]
    edges: tuple[Target | None, ...]


class Match(NamedTuple):
    """Nodes of a graph, by place; what their gradients look like; the seeds, and what each node saved, in one list; how
    much each saved.
    """

    nodes: list[Any]
    looks: list[Any]
    values: list[Any]
    counts: list[int]


class Graph:
    """A graph without its tensors. Operators' nodes come first, the latest first, as a backward call takes them; then
    leaves.
    """

    def __init__(self, roots: Sequence[Edge], nodes: Sequence[OpNode], leaves: Sequence[AccumulateGrad]) -> None:
        places: dict[Node, int] = {node: place for place, node in enumerate([*nodes, *leaves])}
        self.roots = tuple([(places[node], index) for node, index in roots])
        self.leaves = len(leaves)
        self.steps = tuple([
            Step(type(n), n.argument_counts, tuple([None if e is None else (places[e[0]], e[1]) for e in n.edges]))
            for n in nodes
        ])
        self._variants: dict[Any, int] = {}
        self._latest: tuple[list[Any], int] = ([], -1)

    def match(self, roots: Sequence[Edge], seeds: Sequence[Tensor]) -> Match | None:
        """The nodes behind these roots, if they are such a graph."""
        nodes: list[Any] = [None] * (len(self.steps) + self.leaves)
        looks: list[Any] = []
        values: list[Any] = list(seeds)
        counts: list[int] = []
        if len(roots) != len(self.roots) or not _bind(nodes, roots, self.roots):
            return None
        latest: int = 1 << 64
        node: Any
        for node, (kind, argument_counts, edges) in zip(nodes, self.steps, strict=False):
            if (
                type(node) is not kind or node.sequence >= latest or node.saved_values is None
                or node.tensor_hooks or node.retain_hooks or node.pre_hooks or node.post_hooks
                or node.argument_counts != argument_counts or len(node.edges) != len(edges)
                or not _bind(nodes, node.edges, edges)
            ):
                return None
            latest = node.sequence
            looks.append(node.metadata_of_inputs)
            counts.append(len(node.saved_values))
            for saved in node.saved_values:
                if _is_packed(saved):
                    return None
                values.append(saved.shown(node) if type(saved) is SavedTensor else _shown(saved, node))
        for node in nodes[len(self.steps) :]:
            if type(node) is not AccumulateGrad or _has_hooks(node):
                return None
            leaf = _look(node)
            if leaf is None:
                return None
            looks.append(leaf)
        return Match(nodes, looks, values, counts)

    def variant(self, looks: list[Any]) -> int:
        """The number of what the gradients of a match look like."""
        earlier, number = self._latest
        if looks != earlier:
            steps = len(self.steps)
            key = (*[tuple(inputs) for inputs in looks[:steps]], *[(tuple(m), *rest) for m, *rest in looks[steps:]])
            number = self._variants.setdefault(key, len(self._variants))
            self._latest = (looks, number)
        return number

    def rule(self, roots: Sequence[Edge], match: Match) -> Callable[..., tuple[Any, ...]]:
        """The gradients of the leaves as a function of such values, computed as the engine does."""
        leaves = match.nodes[len(self.steps) :]

        def gradients(variant: int, *values: Any) -> tuple[Any, ...]:
            rest = iter(values[len(roots) :])
            saved = [tuple([next(rest) for _ in range(count)]) for count in match.counts]
            with install(_OnValues(dict(zip(match.nodes, saved, strict=False)))):
                walk = Walk(
                    list(roots), list(values[: len(roots)]), True, False, [(leaf, 0) for leaf in leaves], False
                )
                return _kept(leaves, walk.run(), values)

        return gradients


def _bind(nodes: list[Any], edges: Sequence[Edge | None], expected: Sequence[Target | None]) -> bool:
    """Whether edges lead where they should; nodes that were not met before take their places."""
    for edge, target in zip(edges, expected, strict=True):
        if edge is None or target is None:
            if edge is not None or target is not None:
                return False
            continue
        node, place = edge[0], target[0]
        if edge[1] != target[1] or (nodes[place] is not node and nodes[place] is not None):
            return False
        nodes[place] = node
    return True


def _is_packed(saved: Any) -> bool:
    """Whether hooks on saved tensors have something of a saved value: what they give belongs to one run of the node."""
    if type(saved) is tuple:
        return any(map(_is_packed, saved))
    return type(saved) is SavedTensor and saved.unpack_hook is not None


def _shown(saved: Any, node: Node) -> Any:
    if type(saved) is tuple:
        return tuple([v.shown(node) if type(v) is SavedTensor else _shown(v, node) for v in saved])
    return saved


def _has_hooks(node: Node) -> bool:
    return bool(node.tensor_hooks or node.retain_hooks or node.pre_hooks or node.post_hooks)


def _look(leaf: AccumulateGrad) -> tuple[Any, Any, bool] | None:
    """What gradients of a leaf look like: their types, the strides they are kept with (None: row-major), and whether
    they are added to others. None where somebody hears when the leaf takes its gradient, or its class takes calls over.
    """
    variable = leaf.variable
    if variable is None:
        return leaf.metadata_of_inputs, None, True
    state = variable._autograd
    if state is None or state.post_accumulate or type(variable) not in plain_kinds:
        return None
    strides = None if is_row_major(variable) else variable.geometry().strides
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


class Backwards:
    """The graphs that were met on one device, whatever calls were before them."""

    def __init__(self, device: LazyDevice) -> None:
        self._device = device
        self._graphs: Memo[Any, Graph] = Memo(limits.GRAPHS)

    def run(self, state: State, rules: Rules, roots: Sequence[Edge], seeds: Sequence[Tensor], keep: bool) -> bool:
        """Whether a backward call was run as one entry of the trace, which has come to a state."""
        learnt = state.inline.get(Backwards)
        if learnt is not None and any(cache(roots, seeds, keep) is True for cache in learnt.caches):
            return True
        graphs = state.backwards
        if type(graphs) is not list:
            if graphs is not None:
                return False
            graphs = state.backwards = []
        try:
            graph, match = self._known(graphs, roots, seeds)
        except WeftError:  # a value that was saved is not what it was: the engine says so in its turn
            return False
        if graph is None or match is None:
            state.backwards = graphs or ()
            return False
        values = (graph.variant(match.looks), *match.values)
        trace = self._device.trace
        at = trace.point()
        gradients = rules.run(graph, graph.rule(roots, match), values)
        if gradients is NOT_RECORDED:
            state.backwards = ()
            return False
        nodes, latest = match.nodes, rules.latest
        if latest is not None:
            note(trace, at, Backwards, lambda: learn_graph(self._device, at, roots, seeds, nodes, latest))
        for leaf, gradient in zip(match.nodes[len(graph.steps) :], gradients, strict=True):
            if gradient is not None:
                leaf.take(gradient)
        if not keep:
            for node in match.nodes[: len(graph.steps)]:
                node.release()
        return True

    def _known(
        self, graphs: list[Graph], roots: Sequence[Edge], seeds: Sequence[Tensor]
    ) -> tuple[Graph | None, Match | None]:
        for graph in graphs:
            match = graph.match(roots, seeds)
            if match is not None:
                return graph, match
        described = self._described(roots) if len(graphs) < limits.GRAPHS_OF_A_STATE else None
        if described is None or described in graphs:
            return None, None
        match = described.match(roots, seeds)
        if match is not None:
            graphs.append(described)
        return described, match

    def _described(self, roots: Sequence[Edge]) -> Graph | None:
        """The graph behind some roots; None if the engine has to walk it itself."""
        nodes: list[OpNode] = []
        leaves: list[AccumulateGrad] = []
        for node in count_dependencies([node for node, _ in roots], ()):
            if type(node) is AccumulateGrad:
                leaves.append(node)
            elif isinstance(node, OpNode):
                nodes.append(node)
            else:
                return None
        nodes.sort(key=lambda node: -node.sequence)
        graph = Graph(roots, nodes, leaves)
        return self._graphs.setdefault((graph.roots, graph.steps, graph.leaves), graph)
