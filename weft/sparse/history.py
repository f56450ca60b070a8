"""The steps of autograd between a sparse tensor and its values, and the other forms of one: a gradient of a sparse
tensor goes through these alone, for all else is written with ordinary operators on values.
"""

from __future__ import annotations

from typing import Any

from weft.autograd.node import InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.ops.packet import aten
from weft.sparse.pattern import (
    Pattern,
    coalescing,
    compressed,
    coordinates,
    keys_of,
    positions_among,
    summed,
)
from weft.sparse.tensor import Body, SparseTensor, of_body
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import formats
from weft.types.dtype import DType
from weft.types.formats import layout as Layout


def make(pattern: Pattern, values: Tensor) -> SparseTensor:
    """The sparse tensor of a pattern and values [nnz, dense sizes]; gradients flow to the values."""
    edge = gradient_edge(values) if modes.grad else None
    if edge is None:
        return of_body(Body(pattern, values))
    out = of_body(Body(pattern, Tensor.detach(values)))
    out._autograd = AutogradState(False, SparseBackward(edge, pattern, values.dtype), 0)
    return out


def values_of(tensor: SparseTensor) -> Tensor:
    """The values as they are kept; gradients flow on to the sparse tensor."""
    values = tensor._body.values
    edge = gradient_edge(tensor) if modes.grad and values.dtype.is_differentiable else None
    if edge is None:
        return values
    out = Tensor.detach(values)
    out._autograd = AutogradState(False, ValuesBackward(edge, tensor._body.pattern, values), 0)
    return out


def parts_of(tensor: SparseTensor) -> list[Tensor]:
    """The inner tensors in the order of `__tensor_flatten__`; the values have the tensor's history behind them."""
    names, _ = tensor.__tensor_flatten__()
    return [*[getattr(tensor, name) for name in names[:-1]], values_of(tensor)]


def tensor_of_parts(inner: dict[str, Tensor], context: Any, size: Any, stride: Any) -> SparseTensor:
    """The tensor of such parts, with the values' history."""
    layout, is_coalesced = context
    dims, values = inner["_extent"].dims[1:], inner["_numbers"]
    count = len(dims) - values.ndim + 1
    return make(Pattern(layout, dims, inner["_first"], inner.get("_second"), is_coalesced, count), values)


class SparseBackward(Node):
    """The history of a sparse tensor that was made of values: its gradient is looked up at their places."""

    def __init__(self, edge: Any, pattern: Pattern, dtype: DType) -> None:
        super().__init__((edge,))
        self.pattern = pattern
        self.metadata_of_inputs = (InputMetadata(pattern.dims, dtype),)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        return (None if grads[0] is None else look_up(grads[0], self.pattern),)


class ValuesBackward(Node):
    """The history of a sparse tensor's values: their gradient is a sparse one with the same places."""

    def __init__(self, edge: Any, pattern: Pattern, values: Tensor) -> None:
        super().__init__((edge,))
        self.pattern = pattern
        self.metadata_of_inputs = (InputMetadata(values.dims, values.dtype),)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        return (None if grads[0] is None else _placed(grads[0], self.pattern),)


def _placed(values: Tensor, pattern: Pattern) -> SparseTensor:
    """A gradient with these values. Values of one place have one gradient, which is the place's: not their sum."""
    if pattern.is_coalesced:
        return make(pattern, values)
    unique, inverse = coalescing(pattern)
    count = unique.first.dims[1]
    total = summed(values, inverse, count)
    times = summed(aten.ones_like(inverse), inverse, count)
    return make(unique, aten.div(total, aten.reshape(times, (count, *(1,) * (values.ndim - 1)))))


# ---- other forms
def coo_of(tensor: SparseTensor) -> tuple[Pattern, Tensor]:
    """A sparse tensor of any layout as coordinates and values, in the order in which they are kept."""
    pattern, values = tensor._body.pattern, values_of(tensor)
    if pattern.is_coo:
        return pattern, values
    batch = pattern.batch_dim
    if batch:
        values = aten.reshape(values, (dm.product(values.dims[: batch + 1]), *values.dims[batch + 1 :]))
    return coordinates(pattern), values


def coalesced(tensor: SparseTensor) -> tuple[Pattern, Tensor]:
    """A sparse tensor of any layout as sorted coordinates, each there once, and values."""
    return coalesced_parts(*coo_of(tensor))


def coalesced_parts(pattern: Pattern, values: Tensor) -> tuple[Pattern, Tensor]:
    """The same for coordinates and values."""
    if pattern.is_coalesced:
        return pattern, values
    unique, inverse = coalescing(pattern)
    return unique, summed(values, inverse, unique.first.dims[1])


def coalesce(tensor: SparseTensor) -> SparseTensor:
    """A COO tensor with its places sorted and each there once."""
    pattern = tensor._body.pattern
    return tensor if pattern.is_coalesced else make(*coalesced_parts(pattern, values_of(tensor)))


def dense_of(tensor: SparseTensor) -> Tensor:
    """The tensor with all its elements."""
    pattern, values = coo_of(tensor)
    sizes = pattern.sparse_dims
    flat = summed(values, keys_of(pattern.first, sizes), dm.product(sizes))
    return aten.reshape(flat, pattern.dims)  # type: ignore[no-any-return]


def look_up(tensor: Tensor, pattern: Pattern) -> Tensor:
    """The elements of a tensor, dense or sparse, at the places of a pattern, as values of it."""
    if isinstance(tensor, SparseTensor) and tensor._body.pattern.is_same(pattern):
        return values_of(tensor)
    places = coordinates(pattern)
    keys = keys_of(places.first, places.sparse_dims)
    if isinstance(tensor, SparseTensor):
        values = _looked_up(tensor, places, keys)
    else:
        flat = aten.reshape(tensor, (dm.product(places.sparse_dims), *places.dense_dims))
        values = aten.index_select(flat, 0, keys)
    if pattern.batch_dim:
        assert pattern.second is not None
        values = aten.reshape(values, (*pattern.second.dims, *pattern.dense_dims))
    return values


def _looked_up(tensor: SparseTensor, places: Pattern, keys: Tensor) -> Tensor:
    pattern, values = coalesced(with_sparse_dim(tensor, places.sparse_dim))
    at, is_there = positions_among(keys_of(pattern.first, pattern.sparse_dims), keys)
    padded = aten.cat((values, aten.new_zeros(values, (1, *values.dims[1:]))))
    absent = values.dims[0]
    return aten.index_select(padded, 0, aten.where(is_there, at, absent))  # type: ignore[no-any-return]


def with_sparse_dim(tensor: SparseTensor, count: int) -> SparseTensor:
    """The tensor with indices for so many dims."""
    if tensor._body.pattern.sparse_dim == count or not tensor._body.pattern.is_coo:
        return tensor
    return sparse_of(dense_of(tensor), count)


def sparse_of(dense: Tensor, sparse_dim: int) -> SparseTensor:
    """A dense tensor as COO: indices for the first dims, with a value wherever one of its numbers is not 0."""
    if sparse_dim == 0:  # one place, whatever is there
        place = Pattern(formats.sparse_coo, dense.dims, aten.new_zeros(dense, (0, 1), dtype=dt.int64))
        return make(place, aten.unsqueeze(dense, 0))
    is_kept = aten.ne(dense, 0)
    for _ in range(dense.ndim - sparse_dim):
        is_kept = aten.any(is_kept, is_kept.ndim - 1)
    indices = aten.t(aten.nonzero(is_kept))
    sizes, values = dense.dims[:sparse_dim], dense.dims[sparse_dim:]
    indices = aten.clone(indices)
    flat = aten.reshape(dense, (dm.product(sizes), *values))
    return make(
        Pattern(formats.sparse_coo, dense.dims, indices), aten.index_select(flat, 0, keys_of(indices, sizes))
    )


def converted(tensor: SparseTensor, layout: Layout) -> SparseTensor:
    """The tensor in another layout."""
    pattern = tensor._body.pattern
    if pattern.layout is layout:
        return tensor
    if layout is formats.sparse_coo:
        return make(*coo_of(tensor)) if pattern.layout is formats.sparse_csr else make(*sorted_parts(*coo_of(tensor)))
    return compressed_of(*coalesced(tensor), layout)


def sorted_parts(pattern: Pattern, values: Tensor) -> tuple[Pattern, Tensor]:
    """Coordinates that are there once each, in order."""
    order = aten.argsort(keys_of(pattern.first, pattern.sparse_dims), stable=True)
    return (
        pattern.replaced(first=aten.index_select(pattern.first, 1, order), is_coalesced=True),
        aten.index_select(values, 0, order),
    )


def compressed_of(pattern: Pattern, values: Tensor, layout: Layout) -> SparseTensor:
    """The matrix of coalesced coordinates in a compressed layout."""
    rows, columns = pattern.sparse_dims
    indices = pattern.first
    long, short, count = 0, 1, rows
    if layout is formats.sparse_csc:
        long, short, count = 1, 0, columns
        turned = aten.stack((aten.select(indices, 0, 1), aten.select(indices, 0, 0)))
        order = aten.argsort(keys_of(turned, (columns, rows)), stable=True)
        indices, values = aten.index_select(indices, 1, order), aten.index_select(values, 0, order)
    first = compressed(aten.select(indices, 0, long), count)
    return make(Pattern(layout, pattern.dims, first, aten.clone(aten.select(indices, 0, short))), values)
