"""Shapes of sparse tensors: dims exchanged, chosen, joined, and places chosen by index."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.sparse.history import (
    coalesced,
    converted,
    coo_of,
    make,
    sorted_parts,
    values_of,
)
from weft.sparse.pattern import Pattern, compressed, repeated
from weft.sparse.pointwise import within
from weft.sparse.rules import rule
from weft.sparse.tensor import SparseTensor, refusal
from weft.support.errors import IndexBoundsError, ShapeError, StateError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types import formats

_TURNED = {formats.sparse_csr: formats.sparse_csc, formats.sparse_csc: formats.sparse_csr}


# ---- dims exchanged
@rule("t")
def _t(tensor: SparseTensor) -> SparseTensor:
    if tensor.ndim > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {tensor.ndim}D")
    return transpose(tensor, 0, 1) if tensor.ndim == 2 else tensor


@rule("transpose", "swapaxes", "swapdims")
def transpose(tensor: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """Two dims exchanged, both with indices or both without."""
    dim0, dim1 = within(dim0, tensor.ndim), within(dim1, tensor.ndim)
    order = list(range(tensor.ndim))
    order[dim0], order[dim1] = dim1, dim0
    return permute(tensor, tuple(order))


@rule("mT", "adjoint")
def _matrix_transposed(tensor: SparseTensor) -> SparseTensor:
    return transpose(tensor, -2, -1)


@rule("permute")
def permute(tensor: SparseTensor, dims: tuple[int, ...]) -> SparseTensor:
    """Dims in another order, which leaves those with indices in front. Raises StateError."""
    order = [within(d, tensor.ndim) for d in dims]
    if sorted(order) != list(range(tensor.ndim)):
        raise ShapeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {tensor.ndim} is not equal to len(dims) = {len(dims)}"
        )
    pattern, values = tensor._body.pattern, values_of(tensor)
    if order == list(range(tensor.ndim)):
        return make(pattern, values)
    sizes = tuple([pattern.dims[d] for d in order])
    batch = pattern.batch_dim
    if not pattern.is_coo:
        turned = [*range(batch), batch + 1, batch, *range(batch + 2, tensor.ndim)]
        if order != turned:
            raise refusal("permute", tensor)
        return make(pattern.replaced(layout=_TURNED[pattern.layout], dims=sizes), values)
    count = pattern.sparse_dim
    if sorted(order[:count]) != list(range(count)):
        raise StateError("permute: sparse and dense dims cannot be exchanged; use .to_dense() first")
    if order[:count] != list(range(count)):
        indices = aten.stack(tuple([aten.select(pattern.first, 0, d) for d in order[:count]]))
        pattern = pattern.replaced(first=indices, is_coalesced=False)
    if order[count:] != list(range(count, tensor.ndim)):
        values = aten.permute(values, (0, *[d - count + 1 for d in order[count:]]))
    return make(pattern.replaced(dims=sizes), values)


@rule("unsqueeze")
def _unsqueeze(tensor: SparseTensor, dim: int) -> SparseTensor:
    if not tensor._body.pattern.is_coo:
        raise refusal("unsqueeze", tensor)
    dim = within(dim, tensor.ndim + 1)
    pattern, values = tensor._body.pattern, values_of(tensor)
    sizes = (*pattern.dims[:dim], 1, *pattern.dims[dim:])
    count = pattern.sparse_dim
    if dim > count:
        return make(pattern.replaced(dims=sizes), aten.unsqueeze(values, dim - count + 1))
    rows = [aten.select(pattern.first, 0, d) for d in range(count)]
    new = aten.new_zeros(pattern.first, (pattern.first.dims[1],))
    indices = aten.stack((*rows[:dim], new, *rows[dim:]))
    return make(pattern.replaced(dims=sizes, first=indices), values)


@rule("squeeze")
def _squeeze(tensor: SparseTensor, dim: Any = None) -> SparseTensor:
    if not tensor._body.pattern.is_coo:
        raise refusal("squeeze", tensor)
    wanted = range(tensor.ndim) if dim is None else ((dim,) if isinstance(dim, int) else dim)
    out = tensor
    for d in sorted({within(d, tensor.ndim) for d in wanted}, reverse=True):
        if out.shape[d] == 1 and (out._body.pattern.sparse_dim > 1 or d > 0):
            out = _without_dim(out, d)
    return out


def _without_dim(tensor: SparseTensor, dim: int) -> SparseTensor:
    pattern, values = tensor._body.pattern, values_of(tensor)
    sizes = pattern.dims[:dim] + pattern.dims[dim + 1 :]
    count = pattern.sparse_dim
    if dim >= count:
        return make(pattern.replaced(dims=sizes), aten.squeeze(values, dim - count + 1))
    return make(pattern.replaced(dims=sizes, first=_rows_but(pattern, dim)), values)


def _rows_but(pattern: Pattern, dim: int) -> Tensor:
    rows = [aten.select(pattern.first, 0, d) for d in range(pattern.sparse_dim) if d != dim]
    return aten.stack(tuple(rows))  # type: ignore[no-any-return]


# ---- places chosen
def _chosen(pattern: Pattern, values: Tensor, is_kept: Tensor) -> tuple[Pattern, Tensor]:
    places = aten.select(aten.nonzero(is_kept), 1, 0)
    return (
        pattern.replaced(first=aten.index_select(pattern.first, 1, places)), aten.index_select(values, 0, places)
    )


@rule("select")
def select(tensor: SparseTensor, dim: int, index: int) -> Tensor:
    """One index of a dim: sparse, or dense where no dim with indices is left."""
    dim = within(dim, tensor.ndim)
    size = tensor.shape[dim]
    if not -size <= index < size:
        raise IndexBoundsError(
            f"select(): index {index} out of range for tensor of size {list(tensor.shape)} at dimension {dim}"
        )
    index = index + size if index < 0 else index
    pattern, values = coo_of(tensor)
    count = pattern.sparse_dim
    sizes = pattern.dims[:dim] + pattern.dims[dim + 1 :]
    if dim >= count:
        return make(pattern.replaced(dims=sizes), aten.select(values, dim - count + 1, index))
    pattern, values = _chosen(pattern, values, aten.eq(aten.select(pattern.first, 0, dim), index))
    if count == 1:
        return aten.sum(values, 0)  # type: ignore[no-any-return]
    return make(pattern.replaced(dims=sizes, first=_rows_but(pattern, dim)), values)


@rule("unbind")
def _unbind(tensor: SparseTensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tuple([select(tensor, dim, i) for i in range(tensor.shape[within(dim, tensor.ndim)])])


@rule("narrow", "narrow_copy")
def narrow(tensor: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    """`length` indices of a dim, from `start` on."""
    dim = within(dim, tensor.ndim)
    size = tensor.shape[dim]
    start = start + size if start < 0 else start
    if length < 0 or not 0 <= start <= size - length:
        raise StateError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    pattern, values = coo_of(tensor)
    sizes = (*pattern.dims[:dim], length, *pattern.dims[dim + 1 :])
    count = pattern.sparse_dim
    if dim >= count:
        return make(pattern.replaced(dims=sizes), aten.narrow(values, dim - count + 1, start, length))
    row = aten.select(pattern.first, 0, dim)
    pattern, values = _chosen(pattern, values, aten.logical_and(aten.ge(row, start), aten.lt(row, start + length)))
    rows = [aten.select(pattern.first, 0, d) for d in range(count)]
    rows[dim] = aten.sub(rows[dim], start)
    out = make(pattern.replaced(dims=sizes, first=aten.stack(tuple(rows))), values)
    return out if tensor._body.pattern.is_coo else converted(out, tensor.layout)


@rule("slice")
def _slice(tensor: SparseTensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> SparseTensor:
    if step != 1:
        raise refusal("slice", tensor)
    begin, stop, _ = slice(start, end).indices(tensor.shape[within(dim, tensor.ndim)])
    return narrow(tensor, dim, begin, max(stop - begin, 0))


@rule("index_select")
def index_select(tensor: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """The indices of a dim that `index` [m] names, in its order, repeated where it repeats."""
    dim = within(dim, tensor.ndim)
    if index.ndim != 1:
        raise IndexBoundsError("index_select() argument index must be 1-D long-tensor.")
    pattern, values = coo_of(tensor)
    count = pattern.sparse_dim
    sizes = (*pattern.dims[:dim], index.dims[0], *pattern.dims[dim + 1 :])
    if dim >= count:
        return make(pattern.replaced(dims=sizes), aten.index_select(values, dim - count + 1, index))
    row = aten.select(pattern.first, 0, dim)
    order = aten.argsort(row, stable=True)
    starts = compressed(aten.index_select(row, 0, order), pattern.dims[dim])
    lengths = aten.sub(aten.slice(starts, 0, 1), aten.slice(starts, 0, 0, -1))
    of, nth = repeated(aten.index_select(lengths, 0, index))
    at = aten.add(aten.index_select(starts, 0, aten.index_select(index, 0, of)), nth)
    places = aten.index_select(order, 0, at)
    chosen = aten.index_select(pattern.first, 1, places)
    rows = [of if d == dim else aten.select(chosen, 0, d) for d in range(count)]
    is_ordered = dim == 0 and pattern.is_coalesced
    out = pattern.replaced(dims=sizes, first=aten.stack(tuple(rows)), is_coalesced=is_ordered)
    picked = aten.index_select(values, 0, places)
    if pattern.is_coalesced and not is_ordered:
        out, picked = sorted_parts(out, picked)
    sparse = make(out, picked)
    return sparse if tensor._body.pattern.is_coo else converted(sparse, tensor.layout)


@rule("index")
def _index(tensor: SparseTensor, indices: tuple[Any, ...]) -> SparseTensor:
    chosen = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(chosen) != 1 or chosen[0][1].ndim != 1:
        raise refusal("index", tensor)
    dim, index = chosen[0]
    if index.dtype in (dt.bool_, dt.uint8):
        index = aten.select(aten.nonzero(index), 1, 0)
    else:
        index = aten.where(aten.lt(index, 0), aten.add(index, tensor.dims[dim]), index)
    return index_select(tensor, dim, index)


# ---- joined
@rule("cat", "concat", "concatenate")
def cat(tensors: tuple[Any, ...], dim: int = 0) -> SparseTensor:
    """Sparse tensors one after another along a dim. Raises StateError where one is dense."""
    if not all(isinstance(t, SparseTensor) for t in tensors):
        raise StateError("Concatenating sparse tensors, but a dense tensor was found: convert them to one layout")
    first = tensors[0]
    dim = within(dim, first.ndim)
    parts = [coo_of(t) for t in tensors]
    count = parts[0][0].sparse_dim
    if any(p.sparse_dim != count or len(p.dims) != first.ndim for p, _ in parts):
        raise StateError("All tensors must have the same number of dims with indices and of dense dims")
    total: Any = sum(p.dims[dim] for p, _ in parts)
    for p, _ in parts:
        if any(d != dim and a != b for d, (a, b) in enumerate(zip(p.dims, first.dims, strict=True))):
            raise ShapeError(
                f"All tensors must have the same shape, except in the dimension {dim} along which they are joined: "
                f"{list(first.shape)} and {list(p.dims)}"
            )
    sizes = (*first.dims[:dim], total, *first.dims[dim + 1 :])
    indices: list[Tensor] = []
    values: list[Tensor] = []
    before: Any = 0
    for pattern, numbers in parts:
        rows, shift = pattern.first, before if dim < count else 0
        if dim < count:
            rows = aten.stack(tuple([
                aten.add(aten.select(rows, 0, d), shift) if d == dim else aten.select(rows, 0, d) for d in range(count)
            ]))
        else:
            numbers = _padded(numbers, dim - count + 1, before, total)
        indices.append(rows)
        values.append(numbers)
        before = before + pattern.dims[dim]
    is_ordered = dim == 0 and all(p.is_coalesced for p, _ in parts)
    joint = Pattern(formats.sparse_coo, sizes, aten.cat(tuple(indices), 1), None, is_ordered)
    out = make(joint, aten.cat(tuple(values)))
    return out if first._body.pattern.is_coo else converted(make(*coalesced(out)), first.layout)


def _padded(values: Tensor, dim: int, before: Any, total: Any) -> Tensor:
    """Values with zeros around them along a dense dim."""
    def zeros(count: Any) -> Any:
        return aten.new_zeros(values, (*values.dims[:dim], count, *values.dims[dim + 1 :]))

    padded: Tensor = aten.cat((zeros(before), values, zeros(total - before - values.dims[dim])), dim)
    return padded


# ---- new ones
@rule("clone", "_contiguous_copy")
def _clone(tensor: SparseTensor, memory_format: Any = None) -> SparseTensor:
    pattern = tensor._body.pattern
    second = None if pattern.second is None else aten.clone(pattern.second)
    copied = pattern.replaced(first=aten.clone(pattern.first), second=second)
    return make(copied, aten.clone(values_of(tensor)))


@rule("alias", "view_as", "expand_as")
def _alias(tensor: SparseTensor, *rest: Any) -> SparseTensor:
    if rest and rest[0].dims != tensor.dims:
        raise refusal("expand", tensor)
    return make(tensor._body.pattern, values_of(tensor))


@rule("zeros_like", "empty_like")
def zeros_like(tensor: SparseTensor, *options: Any) -> SparseTensor:
    """A tensor of the same sizes and layout without any value."""
    dtype = next((o for o in options if isinstance(o, dt.DType)), tensor.dtype)
    return empty_of(tensor.layout, tensor.dims, tensor._body.pattern.dense_dim, dtype, tensor.device)


def empty_of(layout: Any, dims: tuple[Any, ...], dense_dim: int, dtype: Any, device: Any) -> SparseTensor:
    """A tensor of these sizes without any value."""
    count = len(dims) - dense_dim
    values = aten.zeros((0, *dims[count:]), dtype=dtype, device=device)
    if layout is formats.sparse_coo:
        return make(Pattern(layout, dims, aten.new_zeros(values, (count, 0), dtype=dt.int64)), values)
    long = dims[0 if layout is formats.sparse_csr else 1]
    second = aten.new_zeros(values, (0,), dtype=dt.int64)
    return make(Pattern(layout, dims, aten.new_zeros(second, (long + 1,)), second), values)


@rule("sum_to_size")
def _sum_to_size(tensor: SparseTensor, size: tuple[Any, ...]) -> Tensor:
    if tuple(size) == tuple(tensor.dims):
        return tensor
    lead = tensor.ndim - len(size)
    dims = tuple([d for d in range(tensor.ndim) if d < lead or (size[d - lead] == 1 and tensor.shape[d] != 1)])
    out = aten.sum(tensor, dims, True)
    for _ in range(lead):
        out = _squeeze(out, 0) if isinstance(out, SparseTensor) else aten.squeeze(out, 0)
    return out  # type: ignore[no-any-return]
