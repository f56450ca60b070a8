"""Whose the memory of a gradient is: what nobody else has may be taken instead of copied."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from weft.tensor.dense import dense_array
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


def nobody_else_has(gradient: Any, holders: int) -> bool:
    """Whether a gradient that stands in `holders` places of the caller's (variables, lists) is all of its memory and is
    known nowhere else, so that it may be taken though Python made it or saw it on the way."""
    if type(gradient) is not Tensor or gradient._view is not None or not _has_all_of_its_memory(gradient):
        return False
    if _count(gradient) > holders + _OF_A_VARIABLE:
        return False
    if gradient._storage is None:
        return _count(gradient._data) <= _OF_A_SLOT
    return _count(gradient._data) <= _OF_A_SLOT + 1 and _count(gradient._storage) <= _OF_A_SLOT


def _has_all_of_its_memory(gradient: Tensor) -> bool:
    data, storage = dense_array(gradient), gradient._storage
    if data is None or data.base is not None:
        return False
    return storage is None or (storage.array is data and not storage.is_lent)


def _count(thing: Any) -> int:
    return sys.getrefcount(thing)


def _of_a_variable(thing: Any) -> int:
    return _count(thing)


def _counts() -> tuple[int, int]:
    """What is counted beside a caller's own holders, and of what an attribute alone holds: it hangs on the interpreter
    how many references a call makes."""
    held, box = object(), Tensor.__new__(Tensor)
    box._data = object()
    return _of_a_variable(held) - 1, _count(box._data)


_OF_A_VARIABLE, _OF_A_SLOT = _counts()
