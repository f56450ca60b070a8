"""Whose the memory of a gradient is: what nobody else has may be taken instead of copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.tensor.tensor import Tensor


def is_owned(gradient: Any, place: int, out: tuple[Any, ...], grads: Sequence[Any]) -> bool:
    """Whether a gradient is all of its memory, and nobody else has it: its node made it, for one edge only,
    and was not given it."""
    if not isinstance(gradient, Tensor) or gradient._view is not None or gradient._storage is not None:
        return False
    data = gradient._data
    base = data.base
    if gradient is not out[place]:  # it was summed or cast to fit, into memory of its own
        return base is None or (type(base) is type(data) and base.size == data.size)
    if base is not None:
        return False
    for g in grads:
        if isinstance(g, Tensor) and g._data is data:
            return False
    return not any([i != place and isinstance(o, Tensor) and o._data is data for i, o in enumerate(out)])
