"""weft.cuda: what programs ask before they use a GPU. There is none: weft computes on the CPU."""

from __future__ import annotations

from typing import Any

__all__ = ["current_device", "device_count", "empty_cache", "is_available", "is_initialized", "manual_seed", "manual_seed_all", "synchronize"]


def is_available() -> bool:
    """Whether there is a GPU: never."""
    return False


def is_initialized() -> bool:
    """Whether a GPU is in use: never."""
    return False


def device_count() -> int:
    """The number of GPUs: none."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed the GPU's generator; there is none, so nothing happens, as in PyTorch."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Free the GPU's cached memory: nothing to do."""


def synchronize(device: Any = None) -> None:
    """Wait for the GPU: nothing to do."""


def current_device() -> int:
    """Refused: there is no GPU."""
    raise AssertionError("weft computes on the CPU only; there is no current CUDA device")
