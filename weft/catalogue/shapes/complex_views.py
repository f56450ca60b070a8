"""Views between element types: complex as pairs of reals and back, and the bits of one dtype shown as another."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.shapes.batching import moved
from weft.catalogue.shapes.twins import view
from weft.ops.compute import geometry_of, strided
from weft.ops.geometry import Geometry
from weft.ops.op import NOT_DIFFERENTIABLE, define, itself
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import DTypeError, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

# Strides and offsets count elements of the dtype that is shown.


def _as_real_geometry(g: Geometry) -> Geometry:
    return Geometry((*g.dims, 2), (*(s * 2 for s in g.strides), 1), g.offset * 2)


def _as_real_type(self: TensorType) -> TensorType:
    if self.dtype is not None and not self.dtype.is_complex:
        raise DTypeError("view_as_real is only supported for complex tensors")
    dims = None if self.dims is None else (*self.dims, 2)
    return tensor_type(None if self.dtype is None else self.dtype.to_real(), dims, self.device)


def _numpy_as_real(x: Any) -> Any:
    _as_real_type(tensor_type(dt.from_numpy(x.dtype), x.shape))
    return x[..., None].view(dt.from_numpy(x.dtype).to_real().numpy)


view_as_real = view(
    "aten::view_as_real(Tensor(a) self) -> Tensor(a)",
    "A complex tensor shown as pairs (real, imaginary) in a new last dim of size 2.",
    _as_real_geometry,
    _numpy_as_real,
    type=_as_real_type,
    inverse=lambda g: aten.view_as_complex(aten._contiguous_copy(g)),
    batch=moved(lambda dims: ("view_as_real", ())),
)


_ODD = "Tensor must have a stride divisible by 2 for all but last dimension"


def _as_complex_geometry(g: Geometry) -> Geometry:
    if g.ndim == 0:
        raise ShapeError("Input tensor must have one or more dimensions")
    if not shape_env.equal(g.dims[-1], 2):
        raise ShapeError(f"Tensor must have a last dimension of size 2, got {dims_text(g.dims)}")
    if not shape_env.equal(g.strides[-1], 1):
        raise ShapeError("Tensor must have a last dimension with stride 1")
    odd = [d for d, s in zip(g.dims[:-1], g.strides[:-1], strict=True) if not shape_env.equal(dm.mod(s, 2), 0)]
    if any(not shape_env.equal(d, 1) for d in odd) or not shape_env.equal(dm.mod(g.offset, 2), 0):
        raise ShapeError(_ODD)
    return Geometry(g.dims[:-1], tuple(dm.floordiv(s, 2) for s in g.strides[:-1]), dm.floordiv(g.offset, 2))


def _as_complex_type(self: TensorType) -> TensorType:
    if self.dtype not in (None, dt.float32, dt.float64):
        raise DTypeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{self.dtype}"
        )
    if self.dims is not None:
        if not self.dims:
            raise ShapeError("Input tensor must have one or more dimensions")
        if self.dims[-1] is not None and not shape_env.equal(self.dims[-1], 2):
            raise ShapeError(f"Tensor must have a last dimension of size 2, got {dims_text(self.dims)}")
    dims = None if self.dims is None else self.dims[:-1]
    return tensor_type(None if self.dtype is None else self.dtype.to_complex(), dims, self.device)


def _numpy_as_complex(x: Any) -> Any:
    kind = _as_complex_type(tensor_type(dt.from_numpy(x.dtype), x.shape))
    assert kind.dtype is not None
    if x.size == 0:
        return np.empty(x.shape[:-1], kind.dtype.numpy)
    if x.strides[-1] != x.itemsize:
        raise ShapeError("Tensor must have a last dimension with stride 1")
    if any([s % (2 * x.itemsize) and n != 1 for s, n in zip(x.strides[:-1], x.shape[:-1], strict=True)]):
        raise ShapeError(_ODD)
    return x.view(kind.dtype.numpy)[..., 0]


view_as_complex = view(
    "aten::view_as_complex(Tensor(a) self) -> Tensor(a)",
    "Pairs (real, imaginary) in the last dim shown as complex numbers.",
    _as_complex_geometry,
    _numpy_as_complex,
    precision="float32",
    type=_as_complex_type,
    inverse=lambda g: aten.view_as_real(g),
    batch=moved(lambda dims: ("view_as_complex", ())),
)


def _real(self: Any) -> Any:
    return aten.select(aten.view_as_real(self), -1, 0) if self.dtype.is_complex else self


def _imag(self: Any) -> Any:
    if not self.dtype.is_complex:
        raise DTypeError("imag is not implemented for tensors with non-complex dtypes.")
    return aten.select(aten.view_as_real(self), -1, 1)


define(
    "aten::real(Tensor(a) self) -> Tensor(a)", "The real part, as a view; a real tensor is returned unchanged.",
    decompose=_real, public=("weft",), identity=itself,
)
define(
    "aten::imag(Tensor(a) self) -> Tensor(a)", "The imaginary part of a complex tensor, as a view.", decompose=_imag,
    public=("weft",),
)

# ---- bits


def _bits_geometry(g: Geometry, dtype: DType, size: int) -> Geometry:
    new = dtype.itemsize
    if new == size:
        return g
    if g.ndim == 0:
        raise ShapeError(f"self.dim() cannot be 0 to view {size}-byte elements as {dtype} (different element sizes)")
    if not shape_env.equal(g.strides[-1], 1):
        raise ShapeError(
            f"self.stride(-1) must be 1 to view {size}-byte elements as {dtype} (different element sizes), "
            f"but got {g.strides[-1]}"
        )
    if new < size:
        n = size // new
        return Geometry((*g.dims[:-1], g.dims[-1] * n), (*(s * n for s in g.strides[:-1]), 1), g.offset * n)
    n = new // size
    sizes = [("self.size(-1)", g.dims[-1]), ("self.storage_offset()", g.offset)]
    for what, d in (*sizes, *((f"self.stride({i})", s) for i, s in enumerate(g.strides[:-1]))):
        if not shape_env.equal(dm.mod(d, n), 0):
            raise ShapeError(
                f"{what} must be divisible by {n} to view {size}-byte elements as {dtype} (different element "
                f"sizes), but got {d}"
            )
    return Geometry(
        (*g.dims[:-1], dm.floordiv(g.dims[-1], n)), (*(dm.floordiv(s, n) for s in g.strides[:-1]), 1),
        dm.floordiv(g.offset, n),
    )


def _bits_type(self: TensorType, dtype: DType, size: int) -> TensorType:
    if not self.is_complete:
        return tensor_type(dtype, None, self.device)
    dims = self.shape
    rows = Geometry(dims, (0,) * (len(dims) - 1) + (1,) if dims else ())
    return tensor_type(dtype, _bits_geometry(rows, dtype, size).dims, self.device)


def _numpy_bits(x: Any, dtype: DType, size: int) -> Any:
    if dtype.itemsize == size:
        return x.view(dtype.numpy)
    shown = _bits_geometry(geometry_of(x), dtype, size)
    view = x.view(dtype.numpy)
    return view if view.size else strided(view, shown)  # NumPy forgets the strides of no elements


view_bits = view(
    "aten::view_bits(Tensor(a) self, ScalarType dtype, int itemsize) -> Tensor(a)",
    "The memory of a tensor of elements of `itemsize` bytes shown as elements of another dtype.",
    _bits_geometry,
    _numpy_bits,
    type=_bits_type,
    vjp=NOT_DIFFERENTIABLE,
    batch=moved(lambda dims, *args: ("view_bits", args)),
    public=(),
)

define(
    "aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
    "The tensor's memory shown as elements of another dtype.",
    decompose=lambda self, dtype: (
        aten.alias(self) if self.dtype is dtype else aten.view_bits(self, dtype, self.dtype.itemsize)
    ),
    public=("Tensor",),
)
