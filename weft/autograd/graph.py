"""weft.autograd.graph: the backward graph as users see it: nodes, edges, saved tensors, hooks over several tensors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.autograd import saved as _saved
from weft.autograd.hooks import register_multi_grad_hook
from weft.autograd.node import GradientEdge, Node
from weft.autograd.record import arrival_edge
from weft.autograd.saved import save_on_cpu, saved_tensors_hooks
from weft.autograd.views import refuse_inference
from weft.ops.packet import aten
from weft.support.errors import NestingError, StateError
from weft.tensor.tensor import Tensor

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor. Raises StateError when it requires no grad."""
    edge = arrival_edge(tensor)
    if edge is None:
        raise StateError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge)


def increment_version(tensor: Any) -> None:
    """Count a write that weft did not see (through NumPy, say), so that backward refuses stale saved tensors.
    Takes one tensor or several."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        refuse_inference(t)
        t.storage().version += 1


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within the block, entering saved_tensors_hooks raises StateError with this text."""
    hooks = _saved.default_hooks
    if hooks.stack:
        raise StateError(error_message)
    previous = hooks.disabled
    hooks.disabled = error_message
    try:
        yield
    finally:
        hooks.disabled = previous


class _Allowed(threading.local):
    block: object | None = None  # in which saved tensors may be written


_allowed = _Allowed()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Within the block, tensors that were saved may be written: backward sees the values that were saved
    (a copy of each is kept). Raises StateError within another such block, and NestingError where backward needs what
    was saved in the block after its end."""
    if _allowed.block is not None:
        raise StateError("allow_mutation_on_saved_tensors contexts cannot be nested")
    block = object()

    def unpack(saved: Tensor) -> Tensor:
        if _allowed.block is not block:
            raise NestingError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return saved

    _allowed.block = block
    try:
        with saved_tensors_hooks(lambda t: aten.clone(t.detach()), unpack):
            yield
    finally:
        _allowed.block = None
