"""PyTorch's older names of mixed precision, for GPUs. There is none: what is made here warns, and does nothing."""

from __future__ import annotations

import functools

from weft.amp import autocast_mode, grad_scaler
from weft.types import dtype as dt
from weft.types.dtype import DType

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
_DEVICE = "cuda"
custom_fwd = functools.partial(autocast_mode.custom_fwd, device_type=_DEVICE)
custom_bwd = functools.partial(autocast_mode.custom_bwd, device_type=_DEVICE)


class autocast(autocast_mode.autocast):
    """weft.autocast for "cuda"."""

    def __init__(self, enabled: bool = True, dtype: DType = dt.float16, cache_enabled: bool = True) -> None:
        super().__init__(_DEVICE, dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """weft.amp.GradScaler for "cuda"."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:
        super().__init__(_DEVICE, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
