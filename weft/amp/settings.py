"""What autocast does on this thread, asked and set by function. Devices that are not there have a dtype, and nothing
else: autocast is never on for them."""

from __future__ import annotations

from typing import Any

from weft.support.errors import StateError
from weft.tensor.autocast import Autocast, cache, now, switch
from weft.types import dtype as dt
from weft.types.dtype import DType

__all__ = [
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "get_autocast_cpu_dtype",
    "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_available", "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
]
CPU = "cpu"
_elsewhere: dict[str, DType] = {"cuda": dt.float16, "xpu": dt.float16, "mps": dt.float16, "mtia": dt.bfloat16}


def _checked(device_type: str) -> str:
    """Raises StateError for a type of device that there is no autocast for."""
    if device_type != CPU and device_type not in _elsewhere:
        raise StateError(f"unknown device type for autocast: {device_type!r}; there are cpu, {', '.join(_elsewhere)}")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a type of device, here or elsewhere."""
    return device_type == CPU or device_type in _elsewhere


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on, on this thread. Raises StateError for a device type that there is none for."""
    return _checked(device_type) == CPU and now().is_enabled


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU."""
    return now().is_enabled


def get_autocast_dtype(device_type: str) -> DType:
    """The lower precision: bfloat16 on the CPU, unless another one was set."""
    return now().dtype if _checked(device_type) == CPU else _elsewhere[device_type]


def get_autocast_cpu_dtype() -> DType:
    """The lower precision on the CPU."""
    return now().dtype


def get_autocast_gpu_dtype() -> DType:
    """The lower precision that a GPU would have."""
    return _elsewhere["cuda"]


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast on or off, `set_autocast_enabled("cpu", True)`; without a device type it is that of a GPU."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if _checked(device_type) == CPU:
        switch(Autocast(bool(enabled), now().dtype))


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast on or off for the CPU."""
    set_autocast_enabled(CPU, enabled)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Choose the lower precision of a device type."""
    if _checked(device_type) == CPU:
        switch(Autocast(now().is_enabled, dtype))
    else:
        _elsewhere[device_type] = dtype


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Choose the lower precision on the CPU."""
    set_autocast_dtype(CPU, dtype)


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Choose the lower precision that a GPU would have."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of weights are kept until the outermost block ends."""
    return cache.is_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keep casts of weights until the outermost block ends, or make them anew at each use."""
    cache.is_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget the casts of weights."""
    cache.casts.clear()


def autocast_increment_nesting() -> int:
    """A block begins. How many there are."""
    cache.nesting += 1
    return cache.nesting


def autocast_decrement_nesting() -> int:
    """A block ends. How many there are."""
    cache.nesting -= 1
    return cache.nesting
