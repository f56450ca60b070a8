"""Whose the memory of a gradient is: what nobody else has may be taken instead of copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

from weft.tensor.dense import dense_array
from weft.tensor.tensor import Tensor, tensor_around


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


def nobody_else_has(holders: Any, key: Any) -> bool:
    """Whether the gradient in `holders[key]` (of a list or dictionary, its only place with the caller) is all of its
    memory and is known nowhere else, so that it may be taken though Python made it or saw it on the way.

    It is let go, and whoever still has it, or its storage, keeps them alive; else the memory gets a tensor anew.
    """
    gradient = holders[key]
    if type(gradient) is not Tensor or gradient._view is not None or gradient._autograd is not None:
        return False
    data, storage = dense_array(gradient), gradient._storage
    if data is None or data.base is not None or gradient.__dict__:
        return False
    if storage is not None and (storage.array is not data or storage.is_lent):
        return False
    tensor_seen, storage_seen = ref(gradient), None if storage is None else ref(storage)
    holders[key] = gradient = storage = None
    holders[key] = tensor_seen()
    if holders[key] is not None:
        return False
    again = holders[key] = tensor_around(data)
    again._storage = None if storage_seen is None else storage_seen()
    return again._storage is None
