"""Histories of arguments that the function changes, by a write or by detach_(), as eager mode would; and that of what
it has run backward through.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weft.autograd.dependencies import nodes_behind
from weft.autograd.node import Edge, Node
from weft.autograd.record import gradient_edge, metadata_of
from weft.autograd.saved import FREED
from weft.autograd.views import adopt_history, check_inplace, rebase
from weft.record.older_histories import Given
from weft.record.outside import GuardedState, InplaceView
from weft.support.errors import StateError
from weft.tensor.history import AutogradState
from weft.tensor.modes import set_grad_enabled
from weft.tensor.tensor import Tensor, tensor_around


class SpentBackward(Node):
    """The history of a tensor through which the compiled function itself ran backward: that graph is freed."""

    @classmethod
    def put_on(cls, tensor: Tensor) -> None:
        """Give a tensor this history."""
        node = cls(())
        node.metadata_of_inputs += (metadata_of(tensor.dims, tensor.dtype),)
        tensor._autograd = AutogradState(False, node, 0)
        tensor._autograd.version = tensor._version

    @property
    def is_freed(self) -> bool:
        return True

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        raise StateError(FREED)


class _Written(Node):
    """What was written into a view: its gradient is that of a result of the program."""

    dirty_slot = None  # nothing of what the view held is left

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        return grads


class Before(NamedTuple):
    """What a call is about to overwrite. values: of the program's inputs, those that second gradients ask for: the
    argument as it was, or the bytes of a storage. edges: where gradients of arguments flow, by the tensor's id.
    gradients: those of the call's beginning that the program gives."""

    values: Mapping[int, Any]
    edges: Mapping[int, Edge | None]
    gradients: Sequence[Tensor | None] = ()


NOTHING = Before({}, {})


@dataclass(frozen=True)
class HistoryChanges:
    """Which arguments have other histories when a call has ended.

    By their places: written: those whose history becomes a result of the program; requiring: those that were made
    leaves that require grad; detached: those that have no history any more. reshaped: those that transpose_() and the
    like were called on, with the calls. flags: by their ids, tensors from outside that have another requires_grad, and
    which.
    """

    written: list[int] = field(default_factory=list)
    requiring: list[int] = field(default_factory=list)
    detached: list[int] = field(default_factory=list)
    reshaped: list[tuple[int, Sequence[InplaceView]]] = field(default_factory=list)
    flags: dict[int, tuple[Tensor, bool]] = field(default_factory=dict)

    def check(self, leaves: Sequence[Any]) -> None:
        """Raises StateError where eager mode refuses to write into one of this call's arguments."""
        for at in self.written:
            check_inplace(leaves[at], True)

    def edges(self, leaves: Sequence[Any]) -> dict[int, Edge | None]:
        """Where the gradients of arguments flow whose history is about to change."""
        changed = (*self.written, *self.detached, *(at for at, _ in self.reshaped))
        return {id(leaves[at]): gradient_edge(leaves[at]) for at in changed}

    def settle(self, leaves: Sequence[Any], number: Callable[[Any], Any]) -> None:
        """Take the histories away that the function took away, and show arguments' bytes as it has left them. number:
        the call's number for a symbolic one."""
        for at, calls in self.reshaped:
            for call in calls:
                options = {name: number(value) for name, value in call.options.items()}
                with set_grad_enabled(call.records and at not in self.written):  # else the program is the history
                    getattr(leaves[at], call.method)(*number(call.args), **options)
        for at in self.detached:
            leaves[at].detach_()
        for tensor, wants in self.flags.values():
            tensor._state().requires_grad = wants

    def renew(self, renewed: Mapping[int, Tensor]) -> None:
        """Other tensors (by the ids of those before) have taken the places of some."""
        self.flags.update({id(new): (new, self.flags.pop(old)[1]) for old, new in renewed.items() if old in self.flags})


def changed_histories(stand_ins: Sequence[Any], leaves: Sequence[Any], outside: GuardedState) -> HistoryChanges:
    """What a function that was captured with these stand-ins did to the histories of its arguments, and to how they
    show their bytes."""
    changes = HistoryChanges(flags=outside.flags.changed())
    seen: set[int] = set()
    for at, (stand_in, leaf) in enumerate(zip(stand_ins, leaves, strict=False)):
        if not isinstance(stand_in, Tensor) or stand_in is leaf or id(stand_in) in seen:
            continue
        seen.add(id(stand_in))
        if id(stand_in) in outside.inplace_views:
            changes.reshaped.append((at, outside.inplace_views[id(stand_in)]))
        if _has_own_history(stand_in, outside.view_nodes):
            changes.written.append(at)
        elif leaf.requires_grad is not stand_in.requires_grad:
            (changes.detached if leaf.requires_grad else changes.requiring).append(at)
    return changes


def _has_own_history(tensor: Tensor, view_nodes: Container[Node]) -> bool:
    """Whether a tensor has a history that the function gave it, other than by in-place views."""
    node = tensor._node
    while node is not None and node in view_nodes:
        edge = node.edges[0]
        node = None if edge is None else edge[0]
    return node is not None and type(node) is not Given


def take_history(tensor: Tensor, node: Node, index: int) -> None:
    """Make a result of the program the history of an argument that was written; a view's base has it from then on."""
    if tensor._view is None:
        adopt_history(tensor, node, index)
    else:
        rebase(tensor, _Written(((node, index),)))


# ---- where they begin
def end_at_what_is_given(
    outputs: Sequence[Tensor], histories: Mapping[Edge, Tensor]
) -> dict[int, tuple[Tensor, Tensor]]:
    """Let the graph behind some tensors end where `histories` begin, those that tensors from outside had before the
    call, each in a leaf. Returns the leaves and their tensors, by the ids of the leaves.
    """
    leaves: dict[Edge, Tensor] = {}

    def ended(edge: Edge | None) -> Edge | None:
        if edge is None or edge not in histories:
            return edge
        if edge not in leaves:
            leaves[edge] = tensor_around(histories[edge]._data)
            leaves[edge]._state().requires_grad = True
        return gradient_edge(leaves[edge])

    for node in nodes_behind([out._node for out in outputs], histories):
        if not histories.keys().isdisjoint(node.edges):
            node.edges = tuple([ended(edge) for edge in node.edges])
    return {id(leaf): (leaf, histories[edge]) for edge, leaf in leaves.items()}
