"""Softmax over the values that are there: what has no value is as if it were minus infinity."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.sparse.history import coalesced, converted, make
from weft.sparse.pattern import keys_of, summed
from weft.sparse.pointwise import within
from weft.sparse.tensor import SparseTensor
from weft.support.errors import ArgumentError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """exp(values) over their sum along `dim`, at the places that have values. Source: PyTorch's torch.sparse.softmax.
    Raises ArgumentError for a dense tensor."""
    return _normalized("softmax", input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, at the places that have values."""
    return _normalized("log_softmax", input, dim, dtype)


def _normalized(name: str, tensor: Tensor, dim: int, dtype: Any) -> Tensor:
    if not isinstance(tensor, SparseTensor):
        raise ArgumentError(f"sparse.{name}(): argument 'input' must be a sparse tensor; weft.{name} is for dense ones")
    dim = within(dim, tensor.ndim)
    pattern, values = coalesced(tensor)
    if dtype is not None:
        values = aten._to_copy(values, dt.as_dtype(dtype))
    if dim >= pattern.sparse_dim:
        out = make(pattern, getattr(aten, name)(values, dim - pattern.sparse_dim + 1))
    else:
        out = make(pattern, _over_rows(name, pattern, values, dim))
    return converted(out, tensor.layout)


def _over_rows(name: str, pattern: Any, values: Tensor, dim: int) -> Tensor:
    """Along a dim with indices: the values with equal other indices are one row."""
    others = [d for d in range(pattern.sparse_dim) if d != dim]
    rows = tuple([aten.select(pattern.first, 0, d) for d in others])
    if rows:
        keys = keys_of(aten.stack(rows), tuple([pattern.dims[d] for d in others]))
    else:
        keys = aten.new_zeros(values, (values.dims[0],), dtype=dt.int64)
    unique, group, _ = aten._unique2(keys, True, True)
    count = unique.dims[0]
    highest = aten.scatter_reduce(
        aten.new_zeros(values, (count, *values.dims[1:])), 0,
        aten.expand(aten.reshape(group, (-1, *(1,) * (values.ndim - 1))), values.dims), values.detach(), "amax",
        include_self=False,
    )
    shifted = aten.sub(values, aten.index_select(highest, 0, group))
    powers = aten.exp(shifted)
    total = aten.index_select(summed(powers, group, count), 0, group)
    result: Tensor = aten.div(powers, total) if name == "softmax" else aten.sub(shifted, aten.log(total))
    return result
