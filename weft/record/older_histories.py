"""Tensors that were computed before the call: what a capture shows of an argument's history, and backward calls that
have to go on into an older one, which are no program's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.dependencies import nodes_behind
from weft.autograd.hooks import does_more
from weft.autograd.node import Edge, Node
from weft.autograd.record import gradient_edge, metadata_of
from weft.record.recorder import refusal
from weft.record.writes import ArgumentChange
from weft.support.errors import StateError
from weft.tensor.history import AutogradState
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.record.gradients import LeafGradients


class Given(Node):
    """The history of a stand-in, for an argument or a tensor of Python's state, of which the capture knows only that
    there is one."""

    is_argument = True

    @classmethod
    def before(cls, leaf: Tensor, stand_in: Tensor, is_argument: bool) -> None:
        """Make it the history of a stand-in. leaf: one whose gradient is what flows out of the call."""
        node = cls((gradient_edge(leaf),))
        node.is_argument = is_argument
        node.metadata_of_inputs += (metadata_of(stand_in.dims, stand_in.dtype),)
        stand_in._autograd = AutogradState(False, node, 0)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        return grads


def refuse_to_go_on(
    gradients: LeafGradients, roots: Sequence[Edge], wanted: Sequence[Edge] | None, begin: int
) -> None:
    """Raises ArgumentChange where a backward call goes on into a history from before the call: the function runs as
    it is written. One that was freed, and an argument's where all leaves are asked for, are refused by the step that
    comes to them.

    roots: where it begins; wanted: the edges that it asks for (None: all leaves); begin: the nodes of the capture have
    this sequence number or later ones.
    """
    asked = {
        edge for edge in _edges_before(gradients, wanted or ())
        if edge[0].sequence < begin or isinstance(edge[0], AccumulateGrad)
    }
    _refuse_hooks(gradients, wanted or ())
    if wanted is not None and not asked:
        return
    nodes = nodes_behind([node for node, _ in roots])
    begun = {edge[0] for n in nodes if type(n) is Given and n.is_argument for edge in n.edges if edge is not None}
    for node in nodes:
        if wanted is None and node in begun:
            continue
        older, dims = _older_part(gradients, node, begin)
        if not older or any(n.is_freed for n in older):
            continue
        if wanted is None or any(not asked.isdisjoint(n.edges) for n in older):
            raise refusal(
                f"backward() goes on through a tensor of shape {list(dims)} that was computed before the "
                "call and has a history of its own; use its .detach() where that is not wanted", 3, ArgumentChange
            )


def _older_part(gradients: LeafGradients, node: Node, begin: int) -> tuple[Collection[Node], Sequence[Any]]:
    """The nodes from before the call that a node is or stands for, and the size of what they made."""
    if isinstance(node, AccumulateGrad):
        variable = node.variable
        return ((), ()) if variable is None else (_history_before(gradients, variable), variable.shape)
    if node.sequence >= begin:
        return (), ()
    first = node.metadata_of_inputs[0] if node.metadata_of_inputs else None
    return (node,), () if first is None else first.dims


def _history_before(gradients: LeafGradients, variable: Tensor) -> Collection[Node]:
    """The nodes behind what a stand-in stands for; none for a leaf, or where autograd refuses to say."""
    real = gradients.real(variable)
    try:
        return () if real is variable or real.is_leaf else nodes_behind([real._node])
    except StateError:
        return ()


def _edges_before(gradients: LeafGradients, wanted: Sequence[Edge]) -> Iterator[Edge]:
    """Where gradients flow outside of the call that are asked for within it."""
    for edge, variable in _with_variables(wanted):
        before = edge if variable is None else gradient_edge(gradients.real(variable))
        if before is not None:
            yield before


def _with_variables(edges: Sequence[Edge]) -> Iterator[tuple[Edge, Tensor | None]]:
    """Edges that are asked for, and the leaf, or what stands for a tensor from before the call, of which each is."""
    for edge in edges:
        node = edge[0]
        if type(node) is Given and node.edges[0] is not None:
            node = node.edges[0][0]
        yield edge, node.variable if isinstance(node, AccumulateGrad) else None


def _refuse_hooks(gradients: LeafGradients, wanted: Sequence[Edge]) -> None:
    """Raises ArgumentChange where a gradient is asked for by a tensor with a history from before the call that has
    hooks, which change it, or keeps its gradient. Of others the program guards that they do not."""
    for edge, variable in _with_variables(wanted):
        if type(edge[0]) is not Given or variable is None:
            continue
        real = gradients.real(variable)
        if does_more(real):
            raise refusal(
                "a gradient is asked for by a tensor that was computed before the call and has hooks, which change it, "
                "or keeps its gradient (retain_grad); remove them, or ask by its .detach().requires_grad_()",
                3, ArgumentChange,
            )
        gradients.outside.unheard.append(real)
