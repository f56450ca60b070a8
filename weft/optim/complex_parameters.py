"""Complex parameters, updated as pairs of real numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.ops.packet import aten
from weft.optim.updates import Group
from weft.tensor.capture import refuse_in_capture
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.optim.optimizer import Optimizer


def update_as_real(optimizer: Optimizer, group: Group, params: list[Tensor]) -> None:
    """Update complex parameters as pairs of real numbers: the algorithm sees real views of them, of their gradients
    and of their state."""
    refuse_in_capture(
        f"{type(optimizer).__name__} updates complex parameters, which a compiled function does not; "
        "call its step outside, or keep the parameter as pairs of real numbers and use weft.view_as_complex of it"
    )
    shown = {p: _as_real(optimizer, p) for p in params if p.dtype.is_complex}
    try:
        optimizer._update_group(group, [shown.get(p, p) for p in params])
    finally:
        for p, real in shown.items():
            state = optimizer.state.pop(real, {})
            if state:
                optimizer.state[p] = {
                    k: aten.view_as_complex(v) if isinstance(v, Tensor) and v.shape == real.shape else v
                    for k, v in state.items()
                }


def _as_real(optimizer: Optimizer, p: Tensor) -> Tensor:
    real = aten.view_as_real(p)
    real.grad = aten.view_as_real(p.grad)
    optimizer.state[real] = {
        k: aten.view_as_real(v) if isinstance(v, Tensor) and v.dtype.is_complex else v
        for k, v in optimizer.state.pop(p, {}).items()
    }
    return real
