"""Norms of vectors and the matrix norms that are sums: vector_norm, norm, linalg.norm, dist."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.catalogue.pointwise.arithmetic import sub
from weft.catalogue.reductions.extrema import is_extremum
from weft.catalogue.reductions.sums import Axes, numpy_axes, reduced_type, with_reduced
from weft.ops.batching import over
from weft.ops.op import define
from weft.ops.packet import aten
from weft.support.errors import DTypeError, StateError
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

Dims = tuple[Dim, ...]
Order = Any
_INF = math.inf


def _norm_type(self: TensorType, ord: Order, dim: Axes, keepdim: bool, dtype: DType | None) -> TensorType:
    compute_dtype = dtype or self.dtype
    if compute_dtype is not None and not compute_dtype.is_differentiable:
        raise DTypeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {compute_dtype}"
        )
    return reduced_type(
        "linalg.vector_norm", self, dim, keepdim, None if compute_dtype is None else compute_dtype.to_real()
    )


def _is(ord: Order, value: float) -> bool:
    return type(ord) in (int, float) and ord == value


def is_special_order(ord: Any) -> bool:
    """Whether a norm of this order is computed in a way of its own."""
    return ord in (0, 1, -1, 2, -2, _INF, -_INF)


def _vector_norm(self: Any, ord: Order, dim: Axes, keepdim: bool, dtype: DType | None) -> Any:
    """(sum |x|**ord)**(1/ord), with the limits at 0 and infinity; half precisions compute in float32."""
    target: DType = dtype or self.dtype
    x = aten.to(self, dt.compute_dtype(target))
    out = _real_norm(aten.abs(x) if x.dtype.is_complex else x, ord, dim, keepdim)
    return aten.to(out, target.to_real())


def _real_norm(x: Any, ord: Order, dim: Axes, keepdim: bool) -> Any:
    if _is(ord, 2):
        return aten.sqrt(aten.sum(x * x, dim, keepdim))
    if _is(ord, 0):
        return aten.sum(aten._to_copy(aten.ne(x, 0), dtype=x.dtype), dim, keepdim)
    size = aten.abs(x)
    if _is(ord, 1):
        return aten.sum(size, dim, keepdim)
    if _is(ord, _INF) or _is(ord, -_INF):
        return (aten.amax if ord > 0 else aten.amin)(size, dim, keepdim)
    return aten.pow(aten.sum(aten.pow(size, ord), dim, keepdim), 1.0 / ord)


def _vanishing(condition: Any, value: Any) -> Any:
    return aten.where(condition, 0, value)


def _norm_gradient(g: Any, self: Any, result: Any, self_dims: Dims, ord: Order, dim: Axes, keepdim: bool) -> Any:
    """PyTorch's subgradients: 0 where the norm is 0; ties of the infinity norms share."""
    g, result = (with_reduced(v, self_dims, dim, keepdim) for v in (g, result))
    if _is(ord, 0):
        return aten.zeros_like(self)
    if _is(ord, 1):
        return g * aten.sgn(self)
    if _is(ord, 2):
        return g * _vanishing(result == 0, self / result)
    if _is(ord, _INF) or _is(ord, -_INF):
        chosen = is_extremum(aten.abs(self), result)
        ties = aten._to_copy(chosen, dtype=result.dtype)
        return aten.sgn(self) * _vanishing(aten.logical_not(chosen), g / aten.sum(ties, dim, True))
    size = aten.abs(self)
    if type(ord) in (int, float) and ord >= 2:
        return self * aten.pow(size, ord - 2) * _vanishing(result == 0, g / aten.pow(result, ord - 1))
    slope = _vanishing(size == 0, aten.sgn(self) * aten.pow(size, ord - 1))
    return slope * _vanishing(result == 0, g / aten.pow(result, ord - 1))


def _numpy_vector_norm(x: Any, ord: Order, dim: Axes, keepdim: bool, dtype: DType | None) -> Any:
    axes, size = numpy_axes(x, dim), np.abs(x)
    if ord in (_INF, -_INF):
        return (np.max if ord > 0 else np.min)(size, axis=axes, keepdims=keepdim)
    if ord == 0:
        return np.sum(size != 0, axis=axes, keepdims=keepdim).astype(size.dtype)
    return np.sum(size**ord, axis=axes, keepdims=keepdim) ** (1 / ord)


vector_norm = define(
    "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "(sum |x|**ord)**(1/ord) over `dim` (all dims when None); the greatest |x| for infinity, how many are not 0 for 0.",
    type=_norm_type,
    decompose=_vector_norm,
    vjp={"self": _norm_gradient},
    batch=over("dim"), padding=0,
    specialize={"ord": is_special_order},
    public=("linalg",),
    out=True,
    reference=_numpy_vector_norm,
)


# ---- norm: the older name
def _matrix_norm_type(self: TensorType, ord: Any, dim: Axes, keepdim: bool, dtype: DType | None) -> TensorType:
    if self.dims is not None and self.ndim < 2:
        raise StateError(f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions; got {self.ndim}")
    return _norm_type(self, 2, dim, keepdim, dtype)


def _linalg_norm_type(self: TensorType, ord: Any, dim: Axes, keepdim: bool, dtype: DType | None) -> TensorType:
    if self.dims is not None and ord is not None and dim is None and self.ndim > 2:
        raise StateError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {self.ndim}D."
        )
    return _norm_type(self, 2, dim, keepdim, dtype)


def _any_norm_type(self: TensorType, p: Any, dim: Axes, keepdim: bool, dtype: DType | None) -> TensorType:
    return _norm_type(self, 2, dim, keepdim, dtype)


def _any_norm(self: Any, p: Any, dim: Axes, keepdim: bool, dtype: DType | None) -> Any:
    if p == "nuc":
        return _nuclear_norm(self, dim, keepdim, dtype)
    if isinstance(p, str) and p != "fro":
        raise StateError(f"norm: unknown order {p!r}; a string must be 'fro' or 'nuc'")
    return aten.linalg_vector_norm(self, 2 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)


def _nuclear_norm(self: Any, dim: Axes, keepdim: bool, dtype: DType | None) -> Any:
    pair = (-2, -1) if dim is None and self.ndim == 2 else dim
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise StateError(f"linalg.matrix_norm: dim must be a 2-tuple of ints for the nuclear norm. Got {dim}")
    return _matrix_norm(self, "nuc", (pair[0], pair[1]), keepdim, dtype)


norm = define(
    "aten::norm(Tensor self, Object? p='fro', int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "The p-norm of the elements over `dim` (all dims when None); 'fro' and None mean 2.",
    type=_any_norm_type,
    decompose=_any_norm,
    out=True,
    reference=lambda x, p, dim, keepdim, dtype: _numpy_vector_norm(
        x, 2 if p in (None, "fro") else p, dim, keepdim, dtype
    ),
)

dist = define(
    "aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
    "The p-norm of self - other.",
    type=lambda self, other, p: _norm_type(sub.type(self, other, 1), p, None, False, None),  # type: ignore[misc]
    decompose=lambda self, other, p: aten.linalg_vector_norm(self - other, p),
    reference=lambda a, b, p: _numpy_vector_norm(a - b, p, None, False, None),
)


# ---- linalg.norm
def _pair_of_dims(self: Any, dim: Axes) -> tuple[int, int] | None:
    """The two dims of a matrix norm, or None for a vector norm."""
    if dim is None:
        return (-2, -1) if self.ndim == 2 else None
    if isinstance(dim, int) or len(dim) == 1:
        return None
    if len(dim) != 2:
        raise StateError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    return dim[0], dim[1]


def _sums_of_columns(self: Any, rows: int, columns: int, greatest: bool, keepdim: bool) -> Any:
    """The greatest (least) sum of magnitudes along `rows`, over `columns`."""
    sums = aten.sum(aten.abs(self), rows, True)
    norms = (aten.amax if greatest else aten.amin)(sums, columns, True)
    return norms if keepdim else aten.squeeze(norms, (rows, columns))


def _matrix_norm(self: Any, ord: Order, dim: tuple[int, int], keepdim: bool, dtype: DType | None) -> Any:
    x = aten.to(self, dtype or self.dtype)
    if ord is None or ord == "fro":
        return aten.linalg_vector_norm(x, 2, dim, keepdim)
    if type(ord) in (int, float) and abs(ord) in (1, _INF):
        rows, columns = dim if abs(ord) == 1 else (dim[1], dim[0])
        return _sums_of_columns(x, rows, columns, ord > 0, keepdim)
    if ord in ("nuc", 2, -2):
        return _spectral_norm(x, ord, dim, keepdim)
    raise StateError(f"linalg.matrix_norm: Order {ord} not supported.")


def _spectral_norm(x: Any, ord: Order, dim: tuple[int, int], keepdim: bool) -> Any:
    """The sum, greatest or least of the singular values."""
    values = aten.linalg_svdvals(aten.movedim(x, dim, (-2, -1)))
    out = aten.sum(values, -1) if ord == "nuc" else (aten.amax if ord > 0 else aten.amin)(values, -1)
    if keepdim:
        for axis in sorted(d % x.ndim for d in dim):
            out = aten.unsqueeze(out, axis)
    return out


def _linalg_norm(self: Any, ord: Order, dim: Axes, keepdim: bool, dtype: DType | None) -> Any:
    pair = _pair_of_dims(self, dim)
    if ord is None or pair is None:
        if isinstance(ord, str):
            raise StateError(f"linalg.norm: Order {ord!r} is a matrix norm's; the input or `dim` must have two dims")
        return aten.linalg_vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    return _matrix_norm(self, ord, pair, keepdim, dtype)


linalg_norm = define(
    "aten::linalg_norm(Tensor self, Object? ord=None, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "A vector norm (one dim, or ord None), or a matrix norm: 'fro', 'nuc', 1, -1, inf, -inf, 2, -2.",
    type=_linalg_norm_type,
    decompose=_linalg_norm,
    specialize={"ord": is_special_order},
    out=True,
    public=("linalg",),
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)), ord, dim, bool(rng.integers(2))), {})
        for ord, dim in (
            (None, None), ("fro", (0, 1)), (1, (-1, -2)), (-1, None), (_INF, (0, 1)), (-_INF, (1, 0)), (3, 1),
            (_INF, (0,)),
        )
    ],
    reference=lambda x, ord, dim, keepdim, dtype: np.linalg.norm(
        x, ord, dim if dim is None or len(dim) > 1 else dim[0], keepdim
    ),
)

matrix_norm = define(
    "aten::linalg_matrix_norm(Tensor self, Object ord='fro', int[2] dim=[-2, -1], bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "A norm of matrices: 'fro', 'nuc', 1, -1, inf, -inf, 2, -2.",
    type=_matrix_norm_type,
    decompose=lambda self, ord, dim, keepdim, dtype: _matrix_norm(self, ord, (dim[0], dim[1]), keepdim, dtype),
    specialize={"ord": is_special_order},
    public=("linalg",),
    out=True,
    samples=lambda rng: [
        ((rng.normal(size=(2, 3, 4)), ord, dim, bool(rng.integers(2))), {})
        for ord, dim in (("fro", (0, 1)), (1, (-1, -2)), (-1, (-2, -1)), (_INF, (2, 0)), (-_INF, (1, 0)))
    ],
    reference=lambda x, ord, dim, keepdim, dtype: np.linalg.norm(x, ord, dim, keepdim),
)
