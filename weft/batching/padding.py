"""Padded tensors: made from examples of different sizes, and masked, so that what stands behind an example's end
counts for nothing: neither its value nor, where it is NaN, its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.batching.rows import index_tensor
from weft.batching.values import Examples, Lengths, PerExample, in_form
from weft.ops.packet import aten
from weft.support.errors import DTypeError, ShapeError
from weft.tensor.creation import from_numpy
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType, bool_

PLAIN = (bool, int, float, complex, str, type(None), DType)


# ---- masks
def mask_of(count: int, dims: Sequence[int], lengths: Lengths) -> Tensor:
    """True where an element belongs to its example: [count, *dims], with size 1 in dims that all share."""
    if any(isinstance(length, Tensor) for length in lengths):
        return _open_mask(dims, lengths)
    if modes.capture is not None and all(length is None for length in lengths):
        return aten.ones((count, *(1,) * len(dims)), dtype=bool_)  # type: ignore[no-any-return]
    mask = np.ones((count, *(1,) * len(dims)), bool)
    for dim, (size, length) in enumerate(zip(dims, lengths, strict=True)):
        if length is not None:
            inside = np.arange(size) < length.reshape(-1, 1)
            mask = mask & inside.reshape(count, *(1,) * dim, size, *(1,) * (len(dims) - dim - 1))
    return from_numpy(np.ascontiguousarray(mask))


def _open_mask(dims: Sequence[Any], lengths: Lengths) -> Tensor:
    mask: Any = None
    for dim, (size, length) in enumerate(zip(dims, lengths, strict=True)):
        if length is not None:
            inside = aten.lt(aten.arange(size), aten.unsqueeze(length, 1))
            for _ in range(dim):
                inside = aten.unsqueeze(inside, 1)
            for _ in range(len(dims) - dim - 1):
                inside = aten.unsqueeze(inside, -1)
            mask = inside if mask is None else aten.logical_and(mask, inside)
    return mask  # type: ignore[no-any-return]


def filled(value: Examples, fill: Any) -> Tensor:
    """The data with `fill` behind the examples' ends: a number, or "lowest" or "highest" of the dtype."""
    data = value.data
    if not value.is_ragged:
        return data
    number = _limit(data.dtype, fill) if isinstance(fill, str) else fill
    mask = mask_of(value.size, data.shape[1:], value.lengths)
    return aten.where(mask, data, aten.full((), number, dtype=data.dtype))  # type: ignore[no-any-return]


def _limit(dtype: DType, which: str) -> Any:
    if dtype.is_floating_point:
        return float("-inf") if which == "lowest" else float("inf")
    if dtype.numpy.kind == "b":
        return which == "highest"
    info = np.iinfo(dtype.numpy)
    return int(info.min if which == "lowest" else info.max)


def cleaned(value: Examples) -> Examples:
    """The same examples with zeros behind their ends."""
    if not value.is_ragged:
        return value
    if value._clean is not None:
        return value._clean
    clean = Examples(filled(value, 0), value.lengths)
    clean._clean = clean
    if keeps_history(value.data):
        value._clean = clean
    return clean


def keeps_history(data: Tensor) -> bool:
    """Whether what is computed now of the data may stand for it later: it has its history, and is no value of a block
    that is being recorded."""
    return modes.capture is None and (modes.grad or not data.requires_grad)


def forget_clean(value: Examples) -> None:
    """Let go of what was computed from the data before it was written to."""
    for one in (value, value.root):
        one._clean = one._selected = None


# ---- sizes
def fitted(data: Tensor, dims: Sequence[int]) -> Tensor:
    """Data [examples, ...] with other sizes behind the ends: zeros are added, or what is too much is left out."""
    pads: list[int] = []
    for at in range(len(dims), 0, -1):
        size, wanted = data.shape[at], dims[at - 1]
        if size > wanted:
            data = aten.slice(data, at, 0, wanted, 1)
        pads += [0, max(0, wanted - size)]
    return aten.constant_pad_nd(data, tuple(pads), 0) if any(pads) else data


def sized(data: Tensor, lengths: Lengths) -> Examples:
    """Examples of padded data, cut to the longest of them."""
    if any(isinstance(length, Tensor) for length in lengths):
        return Examples(data, lengths)
    dims = [
        s if length is None else int(length.max(initial=0))
        for s, length in zip(data.shape[1:], lengths, strict=True)
    ]
    return Examples(fitted(data, dims), lengths)


def lengths_of(shapes: Sequence[Sequence[int]]) -> Lengths:
    """For each dim the sizes of the examples, None where all are the same."""
    columns = [np.array(column, np.int64) for column in zip(*shapes, strict=True)]
    return tuple([None if (column == column[0]).all() else column for column in columns])


# ---- from results of single examples
def stacked(tensors: Sequence[Tensor]) -> Examples:
    """One tensor for each example. Raises ShapeError, DTypeError where they cannot be one tensor."""
    ranks, dtypes = {t.ndim for t in tensors}, {t.dtype for t in tensors}
    if len(ranks) > 1:
        raise ShapeError(
            f"batch: the examples give tensors of {' and '.join(map(str, sorted(ranks)))} dims; one value has one rank"
        )
    if len(dtypes) > 1:
        raise DTypeError(f"batch: the examples give tensors of {' and '.join(sorted(d.name for d in dtypes))}")
    lengths = lengths_of([t.shape for t in tensors])
    dims = [max(sizes) for sizes in zip(*(t.shape for t in tensors), strict=True)]
    parts = tuple([fitted(aten.unsqueeze(t, 0), dims) for t in tensors])
    return Examples(aten.cat(parts, 0), lengths)


def gathered(values: Sequence[Any], keeps_lists: bool = False) -> Any:
    """What the examples give, as one value. keeps_lists: lists are the program's own, and stay each example's."""
    first = values[0]
    if all(isinstance(v, Tensor) for v in values):
        return stacked(values)
    if isinstance(first, tuple) and all(isinstance(v, tuple) and len(v) == len(first) for v in values):
        return in_form(first, [gathered([v[i] for v in values], keeps_lists) for i in range(len(first))])
    if isinstance(first, list) and not keeps_lists and all(len(v) == len(first) for v in values):
        return [gathered([v[i] for v in values]) for i in range(len(first))]
    if isinstance(first, PLAIN) and all(type(v) is type(first) and repr(v) == repr(first) for v in values):
        return first
    return PerExample(values)


def numbers_of(value: Examples) -> list[Any] | None:
    """The elements of tensors of one element, as Python's numbers; None for other tensors."""
    if value.is_ragged or value.data.numel() != value.size:
        return None
    return list(aten.reshape(value.data.detach(), (value.size,)).tolist())


def replicated(value: Tensor, count: int) -> Examples:
    """The same tensor for each example, in memory of its own."""
    rows = aten.expand(aten.unsqueeze(value, 0), (count, *value.shape))
    return Examples(aten.clone(rows))


def selected_rows(data: Tensor, indices: Sequence[int]) -> Tensor:
    """Some rows of the data."""
    return aten.index_select(data, 0, index_tensor(indices))  # type: ignore[no-any-return]
