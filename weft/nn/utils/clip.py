"""Clipping gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor


def _with_grads(parameters: Iterable[Tensor] | Tensor) -> list[Tensor]:
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in listed if p.grad is not None]


def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """The norm of all tensors taken as one vector, as a 0-dim tensor."""
    norms = [aten.linalg_vector_norm(t, norm_type) for t in tensors]
    if not norms:
        return aten.zeros(())
    total: Tensor = aten.linalg_vector_norm(aten.stack(tuple(norms)), norm_type)
    if error_if_nonfinite and bool(aten.logical_not(aten.isfinite(total)).item()):
        raise StateError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped.")
    return total


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor, max_norm: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Scale the gradients in place so that their total norm is at most max_norm. Returns the norm before."""
    grads = _with_grads(parameters)
    with no_grad():
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        coefficient = aten.clamp(max_norm / (total + 1e-6), max=1.0)
        for g in grads:
            g.mul_(coefficient)
    return total


def clip_grad_value_(parameters: Iterable[Tensor] | Tensor, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each gradient's elements to [-clip_value, clip_value] in place."""
    with no_grad():
        for g in _with_grads(parameters):
            g.clamp_(-clip_value, clip_value)
