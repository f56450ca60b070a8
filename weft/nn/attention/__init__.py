"""Which implementation scaled_dot_product_attention uses: weft has one, so that what programs choose
here chooses nothing. flex_attention.py is attention with scores and masks by functions."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from weft.support.errors import ArgumentError, StateError

if TYPE_CHECKING:
    from weft.nn.attention import flex_attention

__all__ = ["SDPBackend", "flex_attention", "sdpa_kernel"]


def __getattr__(name: str) -> Any:
    if name == "flex_attention":
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class SDPBackend(IntEnum):
    """PyTorch's implementations. weft's computes what MATH does, in one pass over the keys where it is compiled."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """Takes the backends that a program asks for and goes on with weft's own.
    Raises ArgumentError for what is no backend."""
    asked = list(backends) if isinstance(backends, (list, tuple)) else [backends]
    if not all(isinstance(b, SDPBackend) for b in asked):
        raise ArgumentError(f"sdpa_kernel: expected SDPBackend or a list of them, but got {backends!r}")
    if not asked:
        raise StateError("sdpa_kernel: no backend is given")
    yield {}
