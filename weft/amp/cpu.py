"""PyTorch's older names of mixed precision, for the CPU."""

from __future__ import annotations

from weft.amp import autocast_mode, grad_scaler
from weft.types import dtype as dt
from weft.types.dtype import DType

__all__ = ["GradScaler", "autocast"]
_DEVICE = "cpu"


class autocast(autocast_mode.autocast):
    """weft.autocast for "cpu"."""

    def __init__(self, enabled: bool = True, dtype: DType = dt.bfloat16, cache_enabled: bool = True) -> None:
        super().__init__(_DEVICE, dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """weft.amp.GradScaler for "cpu"."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:
        super().__init__(_DEVICE, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
