"""Sums and products of arrays that keep their digits however many elements there are, and convert no array as a whole.

NumPy adds up in pairs along the elements that lie side by side, and one after the other across them.
Here what lies across is added up in slabs: short chains first, whose results are held in a wider dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from weft.support import limits

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]

CHAIN = 32  # elements that are added up one after the other
SLAB = 1 << 15  # sums of chains that are taken at a time, so that they stay in cache
_HELD = {np.dtype(t): np.dtype(w) for t, w in (("f4", "f8"), ("f8", "f8"), ("c8", "c16"), ("c16", "c16"))}

_add: Any = np.add.reduce  # (by position: a keyword costs more than the sum of a short row)
_multiply: Any = np.multiply.reduce


def add_up(x: Array, axes: Axes, dtype: Any, keepdim: bool) -> Any:
    """The sum over `axes`, carried out in `dtype` or a wider one (the result may still have the wider one)."""
    if x.dtype != dtype:
        return _add(x, axes, _HELD.get(dtype, dtype), None, keepdim)  # NumPy converts piece by piece
    if x.size <= CHAIN or dtype not in _HELD:
        return _add(x, axes, None, None, keepdim)
    paired, across = _by_place(x.shape, x.strides, axes)
    if math.prod([x.shape[a] for a in across]) <= CHAIN:
        return _add(x, axes, None, None, keepdim)
    dims = tuple([1 if a in axes else d for a, d in enumerate(x.shape)]) if keepdim else tuple([
        d for a, d in enumerate(x.shape) if a not in axes
    ])
    if paired:
        x = _add(x, paired, None, None, True)
    rows = np.moveaxis(x, across, range(len(across)))
    if _is_one_axis(rows, len(across)):
        return _across(rows.reshape(-1, *rows.shape[len(across) :])).reshape(dims)
    for _ in across:
        rows = _across(rows)
    return rows.reshape(dims)


def multiply_up(x: Array, axes: Axes, dtype: Any, keepdim: bool) -> Any:
    """The product over `axes`, carried out in a wider dtype: products of numbers near 1 round to the same side again
    and again."""
    return _multiply(x, axes, _HELD.get(dtype, dtype), None, keepdim)


@lru_cache(maxsize=limits.RESULTS)
def _by_place(shape: Axes, strides: Axes, axes: Axes) -> tuple[Axes, Axes]:
    """The axes whose elements lie side by side (in pairs, then), and the others that are summed,
    those farthest apart first."""
    order = sorted([a for a, d in enumerate(shape) if d > 1], key=lambda a: (abs(strides[a]), -a))
    summed = frozenset(axes)
    count = 0
    while count < len(order) and order[count] in summed and (
        not count or strides[order[count]] == strides[order[count - 1]] * shape[order[count - 1]]
    ):
        count += 1
    return tuple(order[:count]), tuple([a for a in reversed(order[count:]) if a in summed])


def _is_one_axis(rows: Array, count: int) -> bool:
    """Whether the first axes can be walked as one."""
    return all(rows.strides[k] == rows.strides[k + 1] * rows.shape[k + 1] for k in range(count - 1))


def _across(rows: Array) -> Array:
    """The sum over the first axis."""
    count, rest = rows.shape[0], rows.shape[1:]
    if count <= CHAIN:
        return np.asarray(np.add.reduce(rows, 0))
    width = math.prod(rest)
    held = np.zeros(rest, _HELD[rows.dtype])
    length = max(1, SLAB // max(width, 1))
    for start in range(0, count, CHAIN * length):
        slab = rows[start : start + CHAIN * length]
        chains = len(slab) // CHAIN
        if chains:
            sums = np.add.reduce(slab[: CHAIN * chains].reshape(CHAIN, chains, *rest), 0)
            held += np.add.reduce(sums, 0, held.dtype) if chains > 1 else sums[0]
        if len(slab) > CHAIN * chains:
            held += np.add.reduce(slab[CHAIN * chains :], 0)
    return held


def reducer(combine: str, axes: Sequence[int], dtype: Any, keepdim: bool) -> Any:
    """What reduces an array with "sum", "prod", "max", "min", "any" or "all". dtype: that of sums and products."""
    over = tuple(axes)
    if combine in ("sum", "prod"):
        method = add_up if combine == "sum" else multiply_up
        return lambda x: method(x, over, dtype, keepdim)
    reduce: Any = _OTHERS[combine].reduce

    def run(x: Array) -> Any:
        if x.size:
            return reduce(x, over, None, None, keepdim)
        return reduce(x, over, None, None, keepdim, **_extremum_of_nothing(combine, x))

    return run


_OTHERS: dict[str, np.ufunc] = {"max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and}


def _extremum_of_nothing(combine: str, x: Array) -> dict[str, Any]:
    """What NumPy must be told for it to take the max or min of no elements: the least (or greatest)
    number of the dtype."""
    if combine not in ("max", "min"):
        return {}
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        return {"initial": limits.min if combine == "max" else limits.max}
    if x.dtype.kind == "b":
        return {"initial": combine == "min"}
    return {"initial": -np.inf if combine == "max" else np.inf}
