"""Joining tensors: cat, stack and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.ops.batching import Flags, everywhere, shifted
from weft.ops.layout import Follows, Operand, channels_last
from weft.ops.op import Op, Out, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text, normalize_dim
from weft.ops.tangents import linear
from weft.support.errors import ShapeError, ValueProblem
from weft.types import dtype as dt
from weft.types import promotion, shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any

# ---- joining


def _legacy_empty(shapes: Sequence[Sequence[Dim]]) -> list[bool]:
    """Which tensors cat skips: those of dims [0], whatever the rank of the others. (A size that is a symbol is asked
    for among tensors of more dims alone: elsewhere an empty one adds nothing.)"""
    is_mixed = any([len(dims) > 1 for dims in shapes])
    return [
        len(dims) == 1 and (shape_env.equal(dims[0], 0) if is_mixed or isinstance(dims[0], int) else False)
        for dims in shapes
    ]


def _joint_dtype(tensors: Sequence[TensorType]) -> dt.DType | None:
    if any(t.dtype is None or t.dims is None for t in tensors):
        return None
    return promotion.result_type(
        tuple(t.dtype for t in tensors if t.dims and t.dtype is not None),
        tuple(t.dtype for t in tensors if not t.dims and t.dtype is not None),
        (),
    )


def _cat_type(tensors: Sequence[TensorType], dim: int) -> TensorType:
    if not tensors:
        raise ValueProblem("torch.cat(): expected a non-empty list of Tensors")
    dtype = _joint_dtype(tensors)
    if any(not t.is_complete for t in tensors):
        return tensor_type(dtype, None)
    for i, t in enumerate(tensors):
        if t.ndim == 0:
            raise ShapeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    kept = [t for t, is_empty in zip(tensors, _legacy_empty([t.shape for t in tensors]), strict=True) if not is_empty]
    if not kept:
        normalize_dim("cat", dim, 1)
        return tensor_type(dtype, (0,))
    first = kept[0]
    at = normalize_dim("cat", dim, first.ndim)
    total: Dim = 0
    for i, t in enumerate(kept):
        if t.ndim != first.ndim:
            raise ShapeError(f"Tensors must have same number of dimensions: got {first.ndim} and {t.ndim}")
        for d in range(first.ndim):
            if d != at and not shape_env.equal(t.shape[d], first.shape[d]):
                raise ShapeError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {first.shape[d]} but got "
                    f"size {t.shape[d]} for tensor number {i} in the list."
                )
        total = total + t.shape[at]
    return tensor_type(dtype, (*first.shape[:at], total, *first.shape[at + 1 :]), first.device)


def _cat(tensors: Sequence[Array], dim: int) -> Array:
    kind = tensors[0].dtype
    if all([t.dtype is kind and t.shape != (0,) for t in tensors]):
        return np.concatenate(tensors, dim)
    dtype = _joint_dtype([tensor_type(dt.from_numpy(t.dtype), t.shape) for t in tensors])
    assert dtype is not None
    kept = [t.astype(dtype.numpy, copy=False) for t in tensors if t.shape != (0,)]
    return np.concatenate(kept, dim) if kept else np.zeros((0,), dtype.numpy)


def _cat_back(g: Any, tensors_dims: Sequence[tuple[Dim, ...]], dim: int) -> list[Any]:
    at = normalize_dim("cat", dim, max(len(d) for d in tensors_dims))
    parts: list[Any] = []
    start: Dim = 0
    for dims, is_empty in zip(tensors_dims, _legacy_empty(tensors_dims), strict=True):
        if is_empty:
            parts.append(aten.new_zeros(g, dims))
            continue
        parts.append(aten.slice(g, at, start, start + dims[at]))
        start = start + dims[at]
    return parts


def _cat_batch(op: Op, size: Dim, flags: Flags, tensors: Any, dim: int) -> Any:
    listed = everywhere(size, flags, (tensors, dim))[0]
    rank = max(t.ndim - 1 for t in listed)
    listed = tuple(t for t in listed if t.ndim - 1 == rank or not _is_legacy_empty(t))
    return aten.cat(listed, shifted(dim, rank))


def _is_legacy_empty(value: Any) -> bool:
    """A tensor of shape (0,) joins with anything."""
    return bool(value.ndim == 2 and value.dims[1] == 0)


def _joined_order(tensors: Sequence[Operand]) -> tuple[int, ...] | None:
    """Images or volumes keep their channels innermost where all of them have."""
    orders = {channels_last(t) for t in tensors if t.dims != (0,)}
    return orders.pop() if len(orders) == 1 else None


def _stacked_order(tensors: Sequence[Operand], dim: int) -> tuple[int, ...] | None:
    """That of the tensors joined at the dim, with the new dim around it."""
    order = _joined_order(tensors)
    at = dim % (tensors[0].ndim + 1)
    if order is None or at == len(order):
        return None
    moved = [i + (i >= at) for i in order]
    around = moved.index(at + 1)
    return (*moved[:around], at, *moved[around:])


cat = define(
    "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
    "Tensors joined along an existing dim.",
    precision="widest",
    type=_cat_type,
    kernel=_cat,
    vjp={"tensors": _cat_back},
    batch=_cat_batch, jvp=linear,
    lies=Follows(lambda tensors, dim: (_joined_order(tensors),)),
    public=("weft",),
    out=Out("castable", is_apart=True),
    samples=draw(case((F(2, 3), F(4, 3)), 0), case((F(2, 3), F(2, 1), F(2, 2)), -1)),
    reference=lambda tensors, dim: np.concatenate(tensors, dim),
)

for _name in ("concat", "concatenate"):
    define(
        f"aten::{_name}(Tensor[] tensors, int dim=0) -> Tensor", "The same as cat.",
        decompose=lambda tensors, dim: aten.cat(tensors, dim), public=("weft",), out=Out("castable", is_apart=True),
    )


def _stack_type(tensors: Sequence[TensorType], dim: int) -> TensorType:
    if not tensors:
        raise ShapeError("stack expects a non-empty TensorList")
    dtype = _joint_dtype(tensors)
    if any(not t.is_complete for t in tensors):
        return tensor_type(dtype, None)
    first = tensors[0]
    for i, t in enumerate(tensors):
        if t.ndim != first.ndim or not all(shape_env.equal(a, b) for a, b in zip(first.shape, t.shape, strict=True)):
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {dims_text(first.shape)} at entry 0 and "
                f"{dims_text(t.shape)} at entry {i}"
            )
    at = normalize_dim("stack", dim, first.ndim + 1)
    return tensor_type(dtype, (*first.shape[:at], len(tensors), *first.shape[at:]), first.device)


def _stack(tensors: Sequence[Any], dim: int) -> Any:
    at = normalize_dim("stack", dim, tensors[0].ndim + 1)
    return aten.cat([aten.unsqueeze(t, at) for t in tensors], at)


def _stack_batch(op: Op, size: Dim, flags: Flags, tensors: Any, dim: int) -> Any:
    listed = everywhere(size, flags, (tensors, dim))[0]
    return aten.stack(listed, shifted(dim, listed[0].ndim))


stack = define(
    "aten::stack(Tensor[] tensors, int dim=0) -> Tensor",
    "Tensors of equal size joined along a new dim.",
    precision="widest",
    type=_stack_type,
    decompose=_stack,
    vjp={"tensors": lambda g, dim: aten.unbind(g, dim)},
    batch=_stack_batch, jvp=linear,
    lies=Follows(lambda tensors, dim: (_stacked_order(tensors, dim),)),
    public=("weft",),
    out=Out("castable", is_apart=True),
    samples=draw(case((F(2, 3), F(2, 3)), 0), case((F(2, 3), F(2, 3)), -1)),
    reference=lambda tensors, dim: np.stack(tensors, dim),
)


def _at_least(tensor: Any, ndim: int) -> Any:
    """The tensor with at least 1, 2 or 3 dims, placed as NumPy's atleast_*d does."""
    if tensor.ndim == 0:
        return aten.reshape(tensor, (1,) * ndim)
    if tensor.ndim == 1 and ndim > 1:
        tensor = aten.unsqueeze(tensor, 0)
    return aten.unsqueeze(tensor, -1) if tensor.ndim == 2 and ndim == 3 else tensor


def _hstack(tensors: Sequence[Any]) -> Any:
    if not tensors:
        raise ShapeError("hstack expects a non-empty TensorList")
    raised = [_at_least(t, 1) for t in tensors]
    return aten.cat(raised, 0 if raised[0].ndim == 1 else 1)


def _joined(name: str, tensors: Sequence[Any], ndim: int, dim: int) -> Any:
    if not tensors:
        raise ShapeError(f"{name} expects a non-empty TensorList")
    return aten.cat([_at_least(t, ndim) for t in tensors], dim)


define(
    "aten::hstack(Tensor[] tensors) -> Tensor", "Tensors joined along dim 1 (dim 0 for vectors).", decompose=_hstack,
    public=("weft",), out=Out("castable", is_apart=True),
)
define("aten::vstack(Tensor[] tensors) -> Tensor", "Tensors joined as rows, along dim 0.",
       decompose=lambda tensors: _joined("vstack", tensors, 2, 0), public=("weft",), out=Out("castable", is_apart=True))
define("aten::row_stack(Tensor[] tensors) -> Tensor", "Another name of `vstack`.",
       decompose=lambda tensors: _joined("row_stack", tensors, 2, 0), public=("weft",),
       out=Out("castable", is_apart=True))
define("aten::dstack(Tensor[] tensors) -> Tensor", "Tensors joined along dim 2.",
       decompose=lambda tensors: _joined("dstack", tensors, 3, 2), public=("weft",), out=Out("castable", is_apart=True))

for _ndim in (1, 2, 3):
    define(
        f"aten::atleast_{_ndim}d(Tensor self) -> Tensor",
        f"The tensor with dims of size 1 added until it has {_ndim}.",
        decompose=lambda self, n=_ndim: _at_least(self, n),
        public=("weft",),
    )
    define(
        f"aten::atleast_{_ndim}d.Sequence(Tensor[] tensors) -> Tensor[]",
        f"The tensors with dims of size 1 added until each has {_ndim}.",
        decompose=lambda tensors, n=_ndim: tuple(_at_least(t, n) for t in tensors),
        public=("weft",),
    )


def _column_stack(tensors: Sequence[Any]) -> Any:
    if not tensors:
        raise ShapeError("column_stack expects a non-empty TensorList")
    return aten.cat([aten.reshape(t, (-1, 1)) if t.ndim < 2 else t for t in tensors], 1)


def _block_diag(tensors: Sequence[Any]) -> Any:
    """Each block padded to the full width; then rows joined."""
    for i, t in enumerate(tensors):
        if t.ndim > 2:
            raise ShapeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.ndim} dimensions"
            )
    blocks = [_at_least(t, 2) for t in tensors] or [aten.empty((1, 0))]
    total: Dim = 0
    for b in blocks:
        total = total + b.dims[1]
    rows, start = [], 0
    for b in blocks:
        rows.append(aten.constant_pad_nd(b, (start, total - start - b.dims[1])))
        start = start + b.dims[1]
    return aten.cat(rows, 0)


define("aten::column_stack(Tensor[] tensors) -> Tensor", "Tensors joined as columns, along dim 1; vectors are columns.",
       decompose=_column_stack, public=("weft",), out=Out("castable", is_apart=True))
define(
    "aten::block_diag(Tensor[] tensors) -> Tensor",
    "Matrices along the diagonal of one matrix, zeros elsewhere; vectors are rows.", decompose=_block_diag,
    public=("weft",), samples=draw(case((F(2, 3), F(1), F(3, 1)))), reference=lambda tensors: _blocks(tensors),
)
define(
    "aten::block_diag.one(Tensor tensor) -> Tensor", "A matrix of one block.",
    decompose=lambda tensor: _block_diag((tensor,)), public=("weft",),
)


def _blocks(tensors: Sequence[Array]) -> Array:
    """An oracle for block_diag."""
    parts = [np.atleast_2d(t) for t in tensors]
    out = np.zeros((sum(p.shape[0] for p in parts), sum(p.shape[1] for p in parts)), np.result_type(*parts))
    i = j = 0
    for p in parts:
        out[i : i + p.shape[0], j : j + p.shape[1]] = p
        i, j = i + p.shape[0], j + p.shape[1]
    return out
