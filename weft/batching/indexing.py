"""Indexes of numbers, slices and new dims, as the views that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.op import OPS
from weft.ops.packet import aten

GET_ITEM = OPS["prim::tensor_getitem"]


def is_basic(index: tuple[Any, ...]) -> bool:
    """Whether an index has nothing but numbers, slices, None and `...` (as programs have it: a text)."""
    return all(
        part is None or type(part) in (int, str)
        or (type(part) is slice and all(type(end) in (int, type(None)) for end in (part.start, part.stop, part.step)))
        for part in index
    )


def indexed(value: Any, index: tuple[Any, ...]) -> Any:
    """value[index], dim by dim. Raises IndexError."""
    return by_parts(value, index, _part) if index else aten.alias(value)


def by_parts(value: Any, index: tuple[Any, ...], one: Callable[[Any, int, Any], tuple[Any, int]]) -> Any:
    """value[index], dim by dim: `one(value, dim, part)` gives the value for a number or slice at a dim, and how many
    dims that leaves. Raises IndexError.
    """
    dim = 0
    named = sum(part is not None and type(part) is not str for part in index)
    if named > value.ndim:
        raise IndexError(f"too many indices for tensor of dimension {value.ndim}")
    rest = value.ndim - named
    for part in index:
        if type(part) is str:
            dim += rest
        elif part is None:
            value, dim = aten.unsqueeze(value, dim), dim + 1
        else:
            value, left = one(value, dim, part)
            dim += left
    return value


def _part(value: Any, dim: int, part: Any) -> tuple[Any, int]:
    if type(part) is int:
        return aten.select(value, dim, part), 0
    if (part.start, part.stop, part.step) != (None, None, None):
        value = aten.slice(value, dim, part.start, part.stop, 1 if part.step is None else part.step)
    return value, 1
