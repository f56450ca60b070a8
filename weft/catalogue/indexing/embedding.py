"""Rows of a table picked by index: embedding, one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.indexing.checks import (
    check_bounds,
    check_index_dtype,
)
from weft.catalogue.samples import F, I, case, draw
from weft.ops.batching import Flags, unary, whole
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.ops.packet import aten
from weft.ops.tangents import linear
from weft.support import seams
from weft.support.errors import DTypeError, OutOfBounds, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any

# ---- embedding


def rows_of(weight: Any, indices: Any, padding_idx: int | None, scale_grad_by_freq: bool, sparse: bool) -> Any:
    """weight[indices] as modules look them up. sparse: whether the table's gradient is a sparse tensor."""
    padding = -1 if padding_idx is None else padding_idx
    if sparse and getattr(weight, "requires_grad", False):
        return seams.sparse_rows(weight, indices, padding, scale_grad_by_freq)
    return aten.embedding(weight, indices, padding, scale_grad_by_freq)


def _embedding_type(weight: TensorType, indices: TensorType, *rest: Any) -> TensorType:
    check_index_dtype("embedding", indices)
    if not (weight.is_complete and indices.is_complete):
        return tensor_type(weight.dtype, None)
    if weight.ndim != 2:
        raise ShapeError("'weight' must be 2-D")
    return tensor_type(weight.dtype, (*indices.shape, weight.shape[1]), weight.device)


def _embedding(weight: Array, indices: Array, *rest: Any) -> Array:
    check_bounds(indices, weight.shape[0], 0, "index out of range in self")
    return weight[indices]


def _embedding_back(g: Any, weight_dims: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    return aten.embedding_dense_backward(g, indices, weight_dims[0], padding_idx, scale_grad_by_freq)


def _embedding_batch(
    op: Op, size: Dim, flags: Flags, weight: Any, indices: Any, padding_idx: int, scale: bool, sparse: bool
) -> Any:
    if not flags[0]:
        return aten.embedding(weight, indices, padding_idx, scale, sparse)
    rows = weight.dims[1]
    out = aten.embedding(aten.flatten(weight, 0, 1), _in_joint_table(indices, flags[1], size, rows), -1, scale, sparse)
    if padding_idx == -1:
        return out
    is_padding = aten.unsqueeze(aten.eq(indices if flags[1] else whole(indices, size), padding_idx % rows), -1)
    return aten.where(is_padding, out.detach() if hasattr(out, "detach") else out, out)


def _in_joint_table(indices: Any, flag: bool, size: Dim, rows: Dim) -> Any:
    """Indices into the tables of all examples, one below the other."""
    first = aten.mul(aten._iota(size), rows)
    every = indices if flag else whole(indices, size)
    return every + aten.reshape(first, (size, *(1,) * (every.ndim - 1)))


embedding = define(
    "aten::embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) -> Tensor",
    "Rows of weight [n, d] picked by indices [...]: [..., d]. The row padding_idx receives no gradient.",
    type=_embedding_type,
    kernel=_embedding,
    vjp={"weight": _embedding_back},
    batch=_embedding_batch, jvp=linear, padding=0,
    effect="raises",
    public=("weft",),
    samples=draw(case(F(5, 3), I(2, 4, high=5)), case(F(5, 3), I(6, high=5))),
    reference=lambda w, i, *rest: w[i],
)


def _embedding_backward_type(grad: TensorType, indices: TensorType, num_weights: Dim, *rest: Any) -> TensorType:
    if not grad.is_complete:
        return tensor_type(grad.dtype, None)
    return tensor_type(grad.dtype, (num_weights, grad.shape[-1]), grad.device)


def _embedding_backward(
    grad: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    width = grad.shape[-1]
    rows, places = grad.reshape(indices.size, width), indices.reshape(-1)
    if scale_grad_by_freq:
        counts = np.bincount(places, minlength=num_weights)
        rows = rows / counts[places][:, None].astype(dt.compute_dtype(dt.from_numpy(rows.dtype)).numpy)
    if padding_idx >= 0:
        kept = places != padding_idx
        rows, places = rows[kept], places[kept]
    return sum_rows(rows, places, num_weights).astype(grad.dtype, copy=False)


def sum_rows(rows: Array, places: Array, count: int) -> Array:
    """out[places[i]] += rows[i], by sorting: np.add.at is an order slower."""
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    at, sums = sums_of_places(rows, places)
    out[at] = sums
    return out


def sums_of_places(rows: Array, places: Array) -> tuple[Array, Array]:
    """The places that there are, each once, and the sum of the rows of each."""
    if not places.size:
        return places, rows[:0]
    wide = dt.compute_dtype(dt.from_numpy(rows.dtype)).numpy
    if (places[1:] < places[:-1]).any():
        order = np.argsort(places, kind="stable")
        places, rows = places[order], rows[order]
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    sums = np.add.reduceat(rows.astype(wide, copy=False), starts, axis=0)
    return places[starts], sums.astype(rows.dtype, copy=False)


def _embedding_double_back(g: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool, num_weights: Dim) -> Any:
    picked = aten.embedding(g, indices)
    if padding_idx >= 0:
        picked = aten.masked_fill(picked, aten.unsqueeze(indices == padding_idx, -1), 0)
    if scale_grad_by_freq:
        flat = aten.reshape(indices, (dm.product(indices.dims),))
        ones = aten.ones_like(flat)
        counts = aten.scatter_add(aten.new_zeros(flat, (num_weights,)), 0, flat, ones)
        picked = picked / aten.unsqueeze(aten.index(counts, (indices,)), -1)
    return picked


def _embedding_backward_batch(
    op: Op, size: Dim, flags: Flags, grad: Any, indices: Any, rows: Dim, padding_idx: int, scale: bool
) -> Any:
    g = grad if flags[0] else whole(grad, size)
    if padding_idx >= 0:
        every = indices if flags[1] else whole(indices, size)
        g = aten.where(aten.unsqueeze(aten.eq(every, padding_idx), -1), 0, g)
    places = _in_joint_table(indices, flags[1], size, rows)
    out = aten.embedding_dense_backward(g, places, size * rows, -1, scale)
    return aten.reshape(out, (size, rows, out.dims[-1]))


define(
    "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, "
    "bool scale_grad_by_freq) -> Tensor",
    "The gradient of embedding: the rows of grad_output summed by index.",
    type=_embedding_backward_type,
    kernel=_embedding_backward,
    vjp={"grad_output": _embedding_double_back},
    batch=_embedding_backward_batch, jvp=linear,
    public=(),
    samples=draw(case(F(2, 4, 3), I(2, 4, high=5), 5, -1, False), case(F(6, 3), I(6, high=5), 5, -1, True)),
)


def _one_hot(self: Any, num_classes: int) -> Any:
    if self.dtype is not dt.int64:
        raise DTypeError(f"one_hot is only applicable to index tensor of type LongTensor, got {self.dtype}")
    if isinstance(num_classes, int) and num_classes == -1:
        num_classes = aten.max(self).item() + 1
    return aten.one_hot_of(self, num_classes)


define(
    "aten::one_hot(Tensor self, int num_classes=-1) -> Tensor",
    "1 at each element's class in a new last dim, else 0; -1 classes means one more than the greatest element.",
    decompose=_one_hot,
    specialize={"num_classes": lambda num_classes: num_classes < 0},
    public=("nn.functional",),
)


def _one_hot_type(self: TensorType, num_classes: Dim) -> TensorType:
    shape_env.refuse_less(num_classes, 0, lambda: OutOfBounds("Class values must be smaller than num_classes."))
    return tensor_type(dt.int64, None if self.dims is None else (*self.dims, num_classes), self.device)


def _one_hot_of(x: Array, num_classes: int) -> Array:
    if x.size and int(x.min()) < 0:
        raise OutOfBounds("Class values must be non-negative.")
    if x.size and int(x.max()) >= num_classes:
        raise OutOfBounds("Class values must be smaller than num_classes.")
    return (x[..., None] == np.arange(num_classes)).astype(np.int64)


define(
    "aten::one_hot_of(Tensor self, int num_classes) -> Tensor",
    "one_hot for a known number of classes.",
    type=_one_hot_type,
    kernel=_one_hot_of,
    vjp=NOT_DIFFERENTIABLE,
    batch=unary,
    effect="raises",
    public=(),
    samples=draw(case(I(4, high=3), 3)),
    reference=lambda x, n: np.eye(n, dtype=np.int64)[x],
)
