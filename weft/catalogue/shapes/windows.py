"""Views that walk along several dims or overlap: diagonal, unfold, as_strided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.catalogue.shapes.batching import moved, twin
from weft.catalogue.shapes.slicing import along, with_dim
from weft.catalogue.shapes.twins import view
from weft.ops.batching import Flags, Rule, everywhere, shifted
from weft.ops.compute import strided
from weft.ops.geometry import Geometry, contiguous, contiguous_strides
from weft.ops.op import Op, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import dims_text, normalize_dim
from weft.ops.tangents import linear
from weft.support.errors import ShapeError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

# ---- diagonals and windows


def _diagonal(g: Geometry, offset: int, dim1: int, dim2: int) -> Geometry:
    a, b = normalize_dim("diagonal", dim1, g.ndim), normalize_dim("diagonal", dim2, g.ndim)
    if a == b:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    down, right = (-offset, 0) if shape_env.less(offset, 0) else (0, offset)
    rows, columns = g.dims[a] - down, g.dims[b] - right
    length = dm.minimum(rows, columns)
    start = g.offset
    if offset and shape_env.less(length, 1):
        length = 0
    else:
        start = start + down * g.strides[a] + right * g.strides[b]
    rest = [i for i in range(g.ndim) if i not in (a, b)]
    return Geometry(
        (*(g.dims[i] for i in rest), length), (*(g.strides[i] for i in rest), g.strides[a] + g.strides[b]), start
    )


diagonal = view(
    "aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    "The diagonal of two dims, as the last dim; `offset` above (or, negative, below) the main one.",
    _diagonal,
    batch=moved(lambda dims, offset, a, b: ("diagonal", (offset, *shifted((a, b), len(dims) - 1)))),
    public_scatter=True,
    samples=draw(case(F(3, 4)), case(F(3, 4), 1), case(F(2, 3, 4), -1, -2, -1)),
    reference=np.diagonal,
)
define(
    "aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
    "The diagonal of the last two dims.",
    decompose=lambda A, offset, dim1, dim2: aten.diagonal(A, offset, dim1, dim2),
    public=("linalg",),
)


def _unfold(g: Geometry, dimension: int, size: int, step: int) -> Geometry:
    at = normalize_dim("unfold", dimension, g.ndim)
    whole, stride = (g.dims[at], g.strides[at]) if g.ndim else (1, 1)
    if shape_env.less(size, 0):
        raise ShapeError(f"size is {size} but must be >= 0")
    if shape_env.less(whole, size):
        raise ShapeError(f"maximum size for tensor at dimension {at} is {whole} but size is {size}")
    if not shape_env.less(0, step):
        raise ShapeError(f"step is {step} but must be > 0")
    if g.ndim == 0:
        return Geometry((size,), (1,), g.offset)
    windows = with_dim(g, at, dm.floordiv(whole - size, step) + 1, stride * step, g.offset)
    return Geometry((*windows.dims, size), (*windows.strides, stride), g.offset)


def _unfolded(kind: str) -> Rule:
    def rule(op: Op, size: Dim, flags: Flags, self: Any, dimension: int, *rest: Any) -> Any:
        x = self if self.ndim > 1 else aten.unsqueeze(self, 1)
        out = twin("unfold", kind)(x, shifted(dimension, x.ndim - 1), *rest)
        return out if self.ndim > 1 else aten.squeeze(out, 1)

    return rule


def _unfolded_scatter(op: Op, size: Dim, flags: Flags, self: Any, src: Any, dimension: int, *rest: Any) -> Any:
    self, src = everywhere(size, flags[:2], (self, src))
    return call(op, (self, src, shifted(dimension, self.ndim - 1), *rest))


unfold = view(
    "aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
    "All windows of `size` elements along a dim, `step` apart; the window is a new last dim.",
    _unfold,
    inverse=lambda g, self_dims, dimension, size, step: aten.unfold_backward(g, self_dims, dimension, size, step),
    batch={"": _unfolded(""), "_copy": _unfolded("_copy"), "_scatter": _unfolded_scatter},
    public=("Tensor",),
    overlaps=True,
    samples=draw(case(F(7), 0, 3, 2), case(F(2, 5), 1, 2, 1)),
    reference=lambda x, dim, size, step: np.lib.stride_tricks.sliding_window_view(x, size, dim)[(slice(None),) * dim + (
        slice(None, None, step),
    )],
)


def _unfold_backward(grad: Any, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    out = np.zeros(tuple(input_sizes), grad.dtype)
    if out.ndim == 0:
        return out + grad.sum()
    at = normalize_dim("unfold", dim, out.ndim)
    count = grad.shape[at]
    for i in range(size):
        out[along(at, slice(i, i + (count - 1) * step + 1, step))] += grad[..., i]
    return out


define(
    "aten::unfold_backward(Tensor grad_in, int[] input_sizes, int dim, int size, int step) -> Tensor",
    "The gradient of unfold: windows summed back to where they came from.",
    type=lambda grad, input_sizes, dim, size, step: tensor_type(grad.dtype, tuple(input_sizes)),
    kernel=_unfold_backward,
    vjp={"grad_in": lambda g, dim, size, step: aten.unfold(g, dim, size, step)},
    batch=lambda op, size, flags, grad, dims, dim, *rest: aten.unfold_backward(
        grad, (size, *dims), shifted(dim, len(dims)), *rest
    ),
    jvp=linear,
    public=(),
    samples=draw(case(F(3, 3), (7,), 0, 3, 2)),
)


def _as_strided(g: Geometry, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None) -> Geometry:
    if len(size) != len(stride):
        raise ShapeError("mismatch in length of strides and shape")
    shape_env.refuse_negative(stride, lambda: ShapeError(
        f"as_strided: Negative strides are not supported at the moment, got strides: {dims_text(stride)}"))
    shape_env.refuse_negative(
        size, lambda: ShapeError(f"as_strided: sizes must not be negative, got {dims_text(size)}")
    )
    return Geometry(tuple(size), tuple(stride), g.offset if storage_offset is None else storage_offset)


def _strided(op: Op, size: Dim, flags: Flags, self: Any, sizes: Any, strides: Any, offset: Any) -> Any:
    own = self.geometry().strides if hasattr(self, "geometry") else contiguous_strides(self.dims)
    return aten.as_strided(self, (size, *sizes), (own[0], *strides), offset)


def _strided_copy(op: Op, size: Dim, flags: Flags, self: Any, sizes: Any, strides: Any, offset: Any) -> Any:
    return aten._contiguous_copy(_strided(op, size, flags, self, sizes, strides, offset))


as_strided = view(
    "aten::as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)",
    "The storage of the tensor shown with any sizes, strides and offset (in elements).",
    _as_strided,
    is_free=True,
    inverse=lambda g, self_dims, size, stride, storage_offset: aten.as_strided_backward(
        g, self_dims, size, stride, storage_offset
    ),
    batch={"": _strided, "_copy": _strided_copy},
    public_scatter=True,
    samples=draw(case(F(12), (2, 3), (4, 1)), case(F(12), (2, 2), (3, 1), 4)),
)


def _as_strided_backward(
    grad: Any, input_sizes: Sequence[int], size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Any:
    out = np.zeros(tuple(input_sizes), grad.dtype)
    places = strided(
        np.arange(out.size).reshape(out.shape), _as_strided(contiguous(out.shape), size, stride, storage_offset)
    )
    np.add.at(out.reshape(-1), places.reshape(-1), grad.reshape(-1))
    return out


def _as_strided_backward_type(grad: TensorType, input_sizes: Sequence[Dim], *rest: Any) -> TensorType:
    return tensor_type(grad.dtype, tuple(input_sizes))


define(
    "aten::as_strided_backward(Tensor grad, int[] input_sizes, int[] size, int[] stride, "
    "int? storage_offset=None) -> Tensor",
    "The gradient of as_strided for a contiguous input: elements that were shown several times receive the sum.",
    type=_as_strided_backward_type,
    kernel=_as_strided_backward,
    vjp={"grad": lambda g, size, stride, storage_offset: aten.as_strided(
        aten._contiguous_copy(g), size, stride, storage_offset
    )},
    jvp=linear,
    public=(),
    samples=draw(case(F(2, 3), (12,), (2, 3), (1, 2), 3)),
)
