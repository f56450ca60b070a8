"""Half precisions: composites compute in float32 and round once, at the end."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.types import dtype as dt
from weft.types.dtype import DType


def cast(x: Any, dtype: DType) -> Any:
    """The tensor in another dtype; itself if it has it."""
    return x if x.dtype is dtype else aten.to(x, dtype)


def widened(x: Any) -> Any:
    """A half precision tensor in float32; others, and None, as they are."""
    return x if x is None else cast(x, dt.compute_dtype(x.dtype))
