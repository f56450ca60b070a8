"""weft.accelerator: what programs ask before they use an accelerator of any kind. There is none: weft computes on the
CPU. Questions are answered, uses are refused."""

from __future__ import annotations

from typing import Any, NoReturn

from weft.support.errors import NoSuchDevice
from weft.tensor.device import Device

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "empty_cache", "get_device_capability", "get_memory_info", "is_available", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]


def is_available() -> bool:
    """Whether there is an accelerator: never."""
    return False


def device_count() -> int:
    """The number of accelerators: none."""
    return 0


def current_accelerator(check_available: bool = False) -> Device | None:
    """The device that computes beside the CPU: None."""
    return None


def empty_cache() -> None:
    """Free the accelerator's cached memory: nothing to do."""


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there is no accelerator. Raises NoSuchDevice."""
    raise NoSuchDevice("weft computes on the CPU only; ask weft.accelerator.is_available() first")


current_device_index = current_device_idx = current_stream = get_device_capability = get_memory_info = _refuse
max_memory_allocated = max_memory_reserved = memory_allocated = memory_reserved = memory_stats = _refuse
reset_accumulated_memory_stats = reset_peak_memory_stats = _refuse
set_device_index = set_device_idx = set_stream = synchronize = _refuse
