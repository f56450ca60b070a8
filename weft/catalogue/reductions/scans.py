"""Scans: cumulative sums, products and extrema along a dim, and the linear recurrence that their gradients are
made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.families import conjugate
from weft.ops.batching import along, shifted
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import normalize_dim, same_dims
from weft.ops.tangents import linear, picked
from weft.support.errors import NotForDType, ShapeError
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

Array = Any


def _along(name: str) -> Callable[..., TensorType]:
    """A type rule: like the operand, along a dim that it has."""

    def rule(self: TensorType, dim: int, by: int = 0) -> TensorType:
        if self.dims is not None:
            normalize_dim(name, dim, self.ndim)
        return self

    return rule


def _scan_type(name: str) -> Callable[..., TensorType]:
    along = _along(name)

    def rule(self: TensorType, dim: int, dtype: DType | None = None) -> TensorType:
        along(self, dim)
        if dtype is None and self.dtype is not None:
            dtype = self.dtype if self.dtype.is_differentiable else dt.int64
        return self.with_dtype(dtype)

    return rule


def _cumulate(accumulate: Callable[..., Array]) -> Callable[..., Array]:
    """A kernel by a NumPy accumulation; integers accumulate in int64, floats in float64, so that long ones
    keep their digits."""

    def kernel(x: Array, dim: int, dtype: DType | None = None) -> Array:
        source = dt.from_numpy(x.dtype)
        target = dtype or (source if source.is_differentiable else dt.int64)
        x = x.astype(_held(target).numpy)
        out = accumulate(x, axis=dim, out=x) if x.ndim else x
        return out.astype(target.numpy, copy=False)

    return kernel


def _held(dtype: DType) -> DType:
    """The dtype in which a scan goes on from element to element."""
    return {dt.float32: dt.float64, dt.complex64: dt.complex128}.get(dt.compute_dtype(dtype), dtype)


cumsum = define(
    "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    "Sums of the elements up to and including each one along `dim`.",
    type=_scan_type("cumsum"),
    kernel=_cumulate(np.add.accumulate),
    vjp={"self": lambda g, dim: aten._cumsum_from_end(g, dim)},
    batch=along("dim"), jvp=linear, padding=0,
    inplace=True,
    out=Out("computed"),
    reference=lambda x, dim, dtype: np.cumsum(x, dim) if x.ndim else x,
)


def _from_end(x: Array, dim: int) -> Array:
    sums = _cumulate(np.add.accumulate)
    return np.flip(sums(np.flip(x, dim), dim), dim) if x.ndim else sums(x, dim)


cumsum_from_end = define(
    "aten::_cumsum_from_end(Tensor self, int dim) -> Tensor",
    "Sums of the elements from the last one down to each one along `dim`.",
    type=_scan_type("_cumsum_from_end"),
    kernel=_from_end,
    vjp={"self": lambda g, dim: aten.cumsum(g, dim)},
    batch=along("dim"), jvp=linear, padding=0,
    public=(),
    reference=lambda x, dim: np.flip(np.cumsum(np.flip(x, dim), dim), dim) if x.ndim else x,
)


def _cumprod_gradient(g: Any, self: Any, dim: int) -> Any:
    """out[i] = self[i] * out[i-1], run backwards; right also where elements are 0."""
    if not self.ndim:
        return g
    factor = conjugate(self)
    reached = aten._linear_scan(aten._shift(factor, dim, -1), g, dim, True)
    return reached * aten._exclusive_cumprod(factor, dim)


cumprod = define(
    "aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    "Products of the elements up to and including each one along `dim`.",
    type=_scan_type("cumprod"),
    kernel=_cumulate(np.multiply.accumulate),
    vjp={"self": _cumprod_gradient},
    batch=along("dim"), padding=1,
    inplace=True,
    out=Out("computed"),
    reference=lambda x, dim, dtype: np.cumprod(x, dim) if x.ndim else x,
)


def _exclusive(x: Array, dim: int) -> Array:
    out = np.ones(x.shape, _held(dt.from_numpy(x.dtype)).numpy)
    if x.ndim and x.shape[dim] > 1:
        np.multiply.accumulate(_part(x, dim, None, -1), axis=dim, out=_part(out, dim, 1, None))
    return out.astype(x.dtype, copy=False)


def _part(x: Array, dim: int, start: int | None, stop: int | None) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, stop),)]


exclusive_cumprod = define(
    "aten::_exclusive_cumprod(Tensor self, int dim) -> Tensor",
    "Products of the elements before each one along `dim`; 1 for the first.",
    type=_along("_exclusive_cumprod"),
    kernel=_exclusive,
    vjp={"self": lambda g, self, result, dim: aten._shift(
        aten._linear_scan(conjugate(self), g, dim, True), dim, -1) * conjugate(result)},
    batch=along("dim"),
    public=(),
    reference=lambda x, dim: np.stack([np.prod(x.take(range(i), dim), dim) for i in range(x.shape[dim])], dim),
)


def _shifted(x: Array, dim: int, by: int) -> Array:
    out = np.zeros_like(x)
    if x.ndim and abs(by) < x.shape[dim]:
        source, target = ((None, -by), (by, None)) if by > 0 else ((-by, None), (None, by or None))
        _part(out, dim, *target)[...] = _part(x, dim, *source)
    return out


shift = define(
    "aten::_shift(Tensor self, int dim, int by) -> Tensor",
    "The elements moved `by` places along `dim`, zeros moved in.",
    type=_along("_shift"),
    kernel=_shifted,
    vjp={"self": lambda g, dim, by: aten._shift(g, dim, -by)},
    batch=lambda op, size, flags, self, dim, by: (
        call(op, (self, shifted(dim, self.ndim - 1), by)) if self.ndim > 1 else aten.zeros_like(self)
    ),
    jvp=linear,
    public=(),
)


def _linear_scan_type(coefficient: TensorType, value: TensorType, dim: int, reverse: bool) -> TensorType:
    if coefficient.is_complete and value.is_complete and not same_dims(coefficient.shape, value.shape):
        raise ShapeError(f"_linear_scan: sizes {coefficient} and {value} differ")
    return _along("_linear_scan")(value, dim)


def _linear_scan(coefficient: Array, value: Array, dim: int, reverse: bool) -> Array:
    out = np.array(value)
    if not out.ndim:
        return out
    rows, factors = np.moveaxis(out, dim, 0), np.moveaxis(coefficient, dim, 0)
    if reverse:
        rows, factors = rows[::-1], factors[::-1]
    for i in range(1, len(rows)):
        rows[i] += factors[i] * rows[i - 1]
    return out


linear_scan = define(
    "aten::_linear_scan(Tensor coefficient, Tensor value, int dim, bool reverse=False) -> Tensor",
    "h[i] = value[i] + coefficient[i] * h[i-1] along `dim` (i+1 where reversed); h is 0 before the first.",
    type=_linear_scan_type,
    kernel=_linear_scan,
    vjp={
        "coefficient": lambda g, coefficient, result, dim, reverse: _scan_adjoint(g, coefficient, dim, reverse)
        * conjugate(aten._shift(result, dim, -1 if reverse else 1)),
        "value": lambda g, coefficient, dim, reverse: _scan_adjoint(g, coefficient, dim, reverse),
    },
    batch=along("dim"),
    public=(),
)


def _scan_adjoint(g: Any, coefficient: Any, dim: int, reverse: bool) -> Any:
    """The recurrence transposed: it runs the other way, with the coefficients of the neighbour."""
    return aten._linear_scan(aten._shift(conjugate(coefficient), dim, 1 if reverse else -1), g, dim, not reverse)


def _cumulative_extremum(choose: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
    """Running extrema with the index of the last element that reached each."""

    def kernel(x: Array, dim: int) -> tuple[Array, Array]:
        if not x.ndim:
            return x.copy(), np.zeros((), np.int64)
        values = choose.accumulate(x, axis=dim)  # type: ignore[attr-defined]
        places = np.arange(x.shape[dim], dtype=np.int64).reshape((-1,) + (1,) * (x.ndim - 1 - dim % x.ndim))
        reached = (x == values) | ((x != x) & (values != values))
        last = np.maximum.accumulate(np.where(reached, places, 0), axis=dim)
        return np.take_along_axis(x, last, dim), last

    return kernel


def _cumulative_extremum_type(self: TensorType, dim: int) -> tuple[TensorType, TensorType]:
    if self.dims is not None:
        normalize_dim("cummax", dim, self.ndim)
    return self, self.with_dtype(dt.int64)


for _name, _choose in (("cummax", np.maximum), ("cummin", np.minimum)):
    define(
        f"aten::{_name}(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        f"Running {'maxima' if _name == 'cummax' else 'minima'} along `dim`, and where each was last reached.",
        type=_cumulative_extremum_type,
        kernel=_cumulative_extremum(_choose),
        out=True,
        vjp={"self": lambda g, result1, dim: aten.scatter_add(aten.zeros_like(g), dim, result1, g)},
        batch=along("dim"), jvp=picked, padding="lowest" if _name == "cummax" else "highest",
        reference=lambda x, dim, choose=_choose: (choose.accumulate(x, dim),),
    )


def _float_scan_type(self: TensorType, dim: int) -> TensorType:
    if self.dtype is not None and not self.dtype.is_differentiable:
        raise NotForDType(f"logcumsumexp: not implemented for {self.dtype}; it takes floats")
    return _scan_type("logcumsumexp")(self, dim)


def _logcumsumexp(x: Array, dim: int) -> Array:
    if not x.ndim or not x.size:
        return x.copy()
    if x.dtype.kind != "c":
        return np.logaddexp.accumulate(x.astype(np.float64), axis=dim).astype(x.dtype)
    is_nan, nothing, nan = np.isnan(x), x.real == -np.inf, complex(np.nan, np.nan)
    out = np.where(is_nan, nan, np.where(nothing, x.dtype.type(-np.inf), x)).astype(x.dtype)  # (nothing has no angle)
    rows = np.moveaxis(out, dim, 0)
    for i in range(1, len(rows)):  # the angle goes on from the greater's, as in logaddexp
        before, this = rows[i - 1], rows[i]
        is_less = before.real < this.real
        small, great = np.where(is_less, before, this), np.where(is_less, this, before)
        sums = np.where(great.real == -np.inf, great, np.log1p(np.exp(small - great)) + great)
        rows[i] = np.where(np.isnan(before) | np.isnan(this), nan, sums)
    return out


def _exp_difference(a: Any, b: Any) -> Any:
    """exp(a - b), 1 where both are the same (infinity, too)."""
    return aten.where(aten.eq(a, b), 1, aten.exp(a - b))


def _logcumsumexp_back(g: Any, self: Any, result: Any, dim: int) -> Any:
    """h[i] = g[i] + exp(result[i] - result[i+1]) h[i+1], and that times exp(self - result):
    no exponential overflows."""
    if not g.ndim:
        return g
    has_next = aten.ne(aten._shift(aten.ones_like(result), dim, -1), 0)
    following = aten.where(has_next, aten._shift(result, dim, -1), result)
    later = aten._linear_scan(conjugate(_exp_difference(result, following)), g, dim, True)
    return later * conjugate(_exp_difference(self, result))


logcumsumexp = define(
    "aten::logcumsumexp(Tensor self, int dim) -> Tensor",
    "log of the sums of exponentials of the elements up to and including each one along `dim`.",
    type=_float_scan_type,
    kernel=_logcumsumexp,
    vjp={"self": _logcumsumexp_back},
    batch=along("dim"),
    out=True,
    reference=lambda x, dim: np.log(np.cumsum(np.exp(x), dim)) if x.ndim else x,
)
