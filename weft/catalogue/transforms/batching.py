"""The batch rules (vmap) of kernels, reductions and products; those of views are in batching_views.py,
of indexing in batching_indexing.py.

Pointwise entries and those that only open to others have none: their rules follow. Imported by the transforms,
not by the catalogue.
"""

from __future__ import annotations

from typing import Any

from weft.catalogue.transforms import batching_convolution, batching_indexing, batching_views
from weft.catalogue.widening import cast, widened
from weft.ops.batching import Flags, along, batches, everywhere, full_rank, over, same, shifted, unary, whole
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.types import dims as dm
from weft.types.dims import Dim

PARTS = (batching_convolution, batching_indexing, batching_views)


batches(
    aten.cumsum, aten.cumprod, aten._exclusive_cumprod, aten._linear_scan, aten.cummax, aten.cummin, aten.logcumsumexp,
    aten.sort.stable, aten.sort.default, aten.topk, aten.kthvalue, aten.median.dim, aten.nanmedian.dim, aten.max.dim,
    aten.min.dim, aten._softmax, aten._log_softmax, aten.mode, aten.fft_fft, aten.fft_ifft, aten.fft_rfft,
    aten.fft_irfft,
)(along("dim"))
batches(aten.mean, aten.logsumexp, aten.var.correction, aten.std.correction, aten.linalg_vector_norm)(over("dim"))
batches(
    aten.linalg_cholesky, aten.linalg_inv, aten._linalg_solve, aten.linalg_solve_triangular, aten.linalg_slogdet,
    aten.slogdet, aten.linalg_svd, aten.linalg_qr, aten.linalg_eigh, aten.linalg_det, aten.det, aten._adjugate,
    aten.linalg_matrix_exp, aten.linalg_matrix_rank.atol_rtol_float, aten.linalg_eig, aten.linalg_cholesky_ex,
    aten.linalg_lu_factor_ex,
)(same)
batches(
    aten.tril, aten.triu, aten.nan_to_num, aten.constant_pad_nd, aten._contiguous_copy, aten.one_hot_of,
    aten.checked_index, aten._checked_values, aten.frexp,
)(unary)
batches(aten.flip)(along("dims"))


# ---- whole tensors
def _roll(op: Op, size: Dim, flags: Flags, self: Any, shifts: Any, dims: Any) -> Any:
    if dims:
        return along("dims")(op, size, flags, self, shifts, dims)
    flat = aten.reshape(self, (size, -1)) if self.ndim != 1 else aten.unsqueeze(self, 1)
    return aten.reshape(aten.roll(flat, shifts, (1,) * len(shifts)), self.dims)


def _greatest(name: str) -> Any:
    """max() and min() of all elements: amax and amin share the gradient between equal elements in the same way."""

    def rule(op: Op, size: Dim, flags: Flags, self: Any) -> Any:
        return getattr(aten, name)(self, tuple(range(1, self.ndim))) if self.ndim > 1 else aten.clone(self)

    return rule


def _shift(op: Op, size: Dim, flags: Flags, self: Any, dim: int, by: int) -> Any:
    return call(op, (self, shifted(dim, self.ndim - 1), by)) if self.ndim > 1 else aten.zeros_like(self)


def _masked_fill(op: Op, size: Dim, flags: Flags, self: Any, mask: Any, value: Any) -> Any:
    if not flags[2]:
        rank = max(self.ndim - bool(flags[0]), mask.ndim - bool(flags[1]))
        return call(
            op, (*(full_rank(v, f, size, rank) if f else v for v, f in zip((self, mask), flags, strict=False)), value)
        )
    rank = max(self.ndim - bool(flags[0]), mask.ndim - bool(flags[1]))
    x, holds, fill = (full_rank(v, f, size, rank) if f else v for v, f in zip((self, mask, value), flags, strict=True))
    return aten.where(holds, aten._to_copy(fill, x.dtype), x)


batches(aten.roll)(_roll)
batches(aten._shift)(_shift)
batches(aten.masked_fill.Tensor)(_masked_fill)
batches(aten.max.default)(_greatest("amax"))
batches(aten.min.default)(_greatest("amin"))


# ---- factories: what is made like a batched tensor is batched, so that examples may be written into it
def _new(op: Op, size: Dim, flags: Flags, self: Any, dims: Any, *rest: Any) -> Any:
    return call(op, (self, (size, *dims), *rest))


batches(aten.zeros_like, aten.ones_like, aten.full_like, aten.empty_like)(unary)
batches(aten.new_zeros, aten.new_ones, aten.new_full, aten.new_empty)(_new)


# ---- joining
def _cat(op: Op, size: Dim, flags: Flags, tensors: Any, dim: int) -> Any:
    listed = everywhere(size, flags, (tensors, dim))[0]
    rank = max(t.ndim - 1 for t in listed)
    listed = tuple(t for t in listed if t.ndim - 1 == rank or not _is_legacy_empty(t))
    return aten.cat(listed, shifted(dim, rank))


def _is_legacy_empty(value: Any) -> bool:
    """A tensor of shape (0,) joins with anything."""
    return bool(value.ndim == 2 and value.dims[1] == 0)


def _stack(op: Op, size: Dim, flags: Flags, tensors: Any, dim: int) -> Any:
    listed = everywhere(size, flags, (tensors, dim))[0]
    return aten.stack(listed, shifted(dim, listed[0].ndim))


batches(aten.cat)(_cat)
batches(aten.stack)(_stack)


# ---- products
def _mm(op: Op, size: Dim, flags: Flags, self: Any, mat2: Any) -> Any:
    return aten.matmul(self, mat2)


def _bmm(op: Op, size: Dim, flags: Flags, self: Any, mat2: Any) -> Any:
    a, b = everywhere(size, flags, (self, mat2))
    flat = aten.bmm(aten.flatten(a, 0, 1), aten.flatten(b, 0, 1))
    return aten.reshape(flat, (size, a.dims[1], *flat.dims[1:]))


def _linear(op: Op, size: Dim, flags: Flags, input: Any, weight: Any, bias: Any) -> Any:
    if not flags[1] and not flags[2]:
        return aten.linear(input, weight, bias)
    dtype = input.dtype
    if bias is not None:  # the sum is rounded once
        input, weight, bias = (widened(x) for x in (input, weight, bias))
    rank = input.ndim - bool(flags[0])
    transposed = aten.transpose(weight, -1, -2) if weight.ndim - bool(flags[1]) == 2 else aten.unsqueeze(weight, -1)
    rows = aten.reshape(input, (*((size,) if flags[0] else ()), *_rows(input, flags[0]), input.dims[-1]))
    out = aten.matmul(rows, transposed)
    out = aten.reshape(out, (
        *((size,) if flags[0] or flags[1] else ()), *_middle(input, flags[0]),
        *((out.dims[-1],) if weight.ndim - bool(flags[1]) == 2 else ()),
    ))
    if bias is None:
        return out
    if not (flags[0] or flags[1]):
        out = whole(out, size)
    return cast(out + (full_rank(bias, True, size, rank) if flags[2] else bias), dtype)


def _middle(value: Any, flag: bool) -> Any:
    """The dims of an example but the last."""
    return value.dims[int(flag) : -1]


def _rows(value: Any, flag: bool) -> Any:
    return (dm.product(_middle(value, flag)),)


batches(aten.mm)(_mm)
batches(aten.bmm)(_bmm)
batches(aten.linear)(_linear)


# ---- norms
def _native_layer_norm(
    op: Op, size: Dim, flags: Flags, input: Any, shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    if not flags[2] and not flags[3]:
        return call(op, (input, shape, weight, bias, eps))
    x = input if flags[0] else whole(input, size)
    out, mean, rstd = aten.native_layer_norm(x, shape, None, None, eps)
    rank = x.ndim - 1
    if weight is not None:
        out = out * (full_rank(weight, True, size, rank) if flags[2] else weight)
    if bias is not None:
        out = out + (full_rank(bias, True, size, rank) if flags[3] else bias)
    return out, mean, rstd


batches(aten.native_layer_norm)(_native_layer_norm)


# ---- lookups in tables
def _embedding(
    op: Op, size: Dim, flags: Flags, weight: Any, indices: Any, padding_idx: int, scale: bool, sparse: bool
) -> Any:
    if not flags[0]:
        return aten.embedding(weight, indices, padding_idx, scale, sparse)
    rows = weight.dims[1]
    moved = _moved(indices, flags[1], size, rows)
    out = aten.embedding(aten.flatten(weight, 0, 1), moved, -1, scale, sparse)
    if padding_idx == -1:
        return out
    is_padding = aten.unsqueeze(aten.eq(indices if flags[1] else whole(indices, size), padding_idx % rows), -1)
    return aten.where(is_padding, out.detach() if hasattr(out, "detach") else out, out)


def _moved(indices: Any, flag: bool, size: Dim, rows: Dim) -> Any:
    """Indices into the tables of all examples, one below the other."""
    first = aten.mul(aten._iota(size), rows)
    every = indices if flag else whole(indices, size)
    return every + aten.reshape(first, (size, *(1,) * (every.ndim - 1)))


def _embedding_dense_backward(
    op: Op, size: Dim, flags: Flags, grad: Any, indices: Any, rows: Dim, padding_idx: int, scale: bool
) -> Any:
    g = grad if flags[0] else whole(grad, size)
    if padding_idx >= 0:
        every = indices if flags[1] else whole(indices, size)
        g = aten.where(aten.unsqueeze(aten.eq(every, padding_idx), -1), 0, g)
    out = aten.embedding_dense_backward(g, _moved(indices, flags[1], size, rows), size * rows, -1, scale)
    return aten.reshape(out, (size, rows, out.dims[-1]))


def _searchsorted(
    op: Op, size: Dim, flags: Flags, sequence: Any, self: Any, out_int32: bool, right: bool, side: Any, sorter: Any
) -> Any:
    if not flags[0] and not flags[5] and sequence.ndim == 1:
        return call(op, (sequence, self, out_int32, right, side, sorter))
    sequence, _, sorter = everywhere(size, (flags[0], True, flags[5]), (sequence, None, sorter))
    values = self if flags[1] else whole(self, size)
    if sequence.ndim > 2:
        return call(op, (sequence, values, out_int32, right, side, sorter))
    return aten.reshape(
        call(op, (sequence, aten.reshape(values, (size, -1)), out_int32, right, side, sorter)), values.dims
    )


def _searchsorted_number(op: Op, size: Dim, flags: Flags, sequence: Any, self: Any, *how: Any) -> Any:
    found = aten.searchsorted(
        sequence, aten.full((size, 1), self, dtype=sequence.dtype),
        **dict(zip(("out_int32", "right", "side", "sorter"), how, strict=True)),
    )
    return aten.reshape(found, (size,))


batches(aten.searchsorted.Scalar)(_searchsorted_number)
batches(aten.embedding)(_embedding)
batches(aten.embedding_dense_backward)(_embedding_dense_backward)
batches(aten.searchsorted.Tensor)(_searchsorted)
