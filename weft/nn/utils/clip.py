"""Clipping gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.autograd.accumulate import gradient_of
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.support.warn import warn
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

Parameters = Iterable[Tensor] | Tensor


def clip_grad_norm(
    parameters: Parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """clip_grad_norm_, by PyTorch's older name."""
    warn(
        "`clip_grad_norm` is now deprecated in favor of `clip_grad_norm_`. Please use the in-place version instead.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def _with_grads(parameters: Parameters) -> list[Tensor]:
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    gradients = (gradient_of(p) for p in listed)
    return [g for g in gradients if g is not None]


def get_total_norm(
    tensors: Parameters, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors taken as one vector, as a 0-dim tensor."""
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norms = [aten.linalg_vector_norm(t, float(norm_type)) for t in listed]
    if not norms:
        return aten.zeros(())
    total: Tensor = aten.linalg_vector_norm(aten.stack(tuple(norms)), float(norm_type))
    if error_if_nonfinite and not aten.isfinite(total).item():
        raise StateError(
            f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error "
            "and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`")
    return total


_total_norm = no_grad()(get_total_norm)


@no_grad()
def clip_grads_with_norm_(
    parameters: Parameters, max_norm: Any, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients in place as if their total norm were `total_norm`, so that it is at most max_norm."""
    coefficient = aten.clamp(max_norm / (total_norm + 1e-6), max=1.0)
    for g in _with_grads(parameters):
        g.detach().mul_(coefficient)


def clip_grad_norm_(
    parameters: Parameters, max_norm: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients in place so that their total norm is at most max_norm. Returns the norm before."""
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = _total_norm(_with_grads(listed), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


@no_grad()
def clip_grad_value_(parameters: Parameters, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each gradient's elements to [-clip_value, clip_value] in place."""
    for g in _with_grads(parameters):
        g.detach().clamp_(-clip_value, clip_value)
