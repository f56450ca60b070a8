"""Special functions that NumPy lacks, over arrays of float32 or float64: erf, erfc, erfinv.

Errors, measured against 40-digit values: erf and erfc at most 2 ulp in float64, 1 ulp in float32; erfinv
at most 4 ulp in float64, 1 ulp in float32. Work goes in blocks that stay in cache. float32 erf has its own short path;
the rest of float32 goes through float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from weft.ops import special_tables as tables
from weft.ops.quantile import DOUBLE, Rational, Table
from weft.support import limits

Array = Any
_BLOCK = 1 << 14
_FEW = 1 << 11
_HALF_MASK = np.int64(~((1 << 27) - 1))


def _blocks(x: Array, compute: Callable[[Array], Array]) -> Array:
    """compute(x) by blocks, in x's shape and dtype. x is float32 or float64."""
    x = np.asarray(x)
    if not x.flags.c_contiguous and 0 not in x.strides:  # in the order of x
        order = sorted(range(x.ndim), key=lambda i: -x.strides[i])
        packed = _blocks(np.ascontiguousarray(x.transpose(order)), compute)
        return packed.transpose([order.index(i) for i in range(x.ndim)])
    if x.ndim and x.size <= _BLOCK:
        return compute(x.reshape(-1)).astype(x.dtype, copy=False).reshape(x.shape)
    flat = x.reshape(-1)
    out = np.empty(flat.shape, x.dtype)
    for start in range(0, flat.size, _BLOCK):
        out[start : start + _BLOCK] = compute(flat[start : start + _BLOCK])
    return out.reshape(x.shape)


def _polynomial(x: Array, coefficients: Table) -> Array:
    """Horner's rule in the dtype of x, of one dim."""
    first, second, *rest = _falling(coefficients, x.dtype, x.size)
    value = x * first
    value += second
    for c in rest:
        np.multiply(value, x, value)
        np.add(value, c, value)
    return value


@lru_cache(maxsize=limits.FEW_RESULTS)
def _falling(coefficients: Table, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
    """Coefficients from the highest power down as arrays, which NumPy takes faster than numbers: for few elements each
    repeated, for more of no dims (the caches have to hold them)."""
    return tuple([np.full(count if count <= _FEW else (), c, dtype) for c in reversed(coefficients)])


def _at_most(x: Array, limit: float) -> Array:
    return np.minimum(x, *_falling((limit,), x.dtype, x.size))


def _rational(x: Array, parts: Rational) -> Array:
    return _polynomial(x, parts[0]) / _polynomial(x, parts[1])


def erf(x: Array) -> Array:
    """The error function."""
    return _blocks(x, _erf_single if np.asarray(x).dtype == np.float32 else _erf_double)


def erfc(x: Array) -> Array:
    """1 - erf(x), accurate also where that is small."""
    return _blocks(x, _in_double(_erfc_double))


def erfinv(x: Array) -> Array:
    """The inverse of erf on [-1, 1]; infinite at the ends, NaN outside."""
    return _blocks(x, _in_double(_erfinv_double))


def _in_double(compute: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: compute(x.astype(np.float64))


# ---- erf in single precision
def _erf_single(x: Array) -> Array:
    """x + x P(x**2) up to 1, 1 - exp(-|x| P(|x|)) from there to 4, 1 beyond."""
    (one,) = _falling((1.0,), x.dtype, x.size)
    size = _at_most(np.abs(x), 4.0)
    near = _polynomial(np.minimum(size * size, one), tables.NEAR_SINGLE_P)
    near *= x
    near += x
    is_near = size <= one
    if is_near.all():
        return near
    far = np.maximum(size, one)
    tail = np.subtract(one, np.exp(-far * _polynomial(far, tables.TAIL_SINGLE_P)))
    out = np.copysign(tail, x)
    np.putmask(out, is_near, near)
    return out


# ---- double precision
def _erf_double(x: Array) -> Array:
    size = np.abs(x)
    out = x + x * _polynomial(np.minimum(x * x, 0.7119140625), tables.NEAR_P)
    large = size > 0.84375
    if large.any():
        out[large] = np.copysign(1.0 - _upper_tail(size[large]), x[large])
    return out


def _erfc_double(x: Array) -> Array:
    size = np.abs(x)
    correction = x * _polynomial(np.minimum(x * x, 0.7119140625), tables.NEAR_P)
    out = np.where(x < 0.25, 1.0 - (x + correction), 0.5 - ((x - 0.5) + correction))
    large = size > 0.65
    if large.any():
        tail = _upper_tail(size[large])
        out[large] = np.where(x[large] > 0, tail, 2.0 - tail)
    return out


def _upper_tail(x: Array) -> Array:
    """erfc of x > 0.65. From 1.25 on exp(-x**2) with a fitted correction in the exponent;
    x**2 is split so that it is exact."""
    x = np.minimum(x, 28.0)
    high = (x.view(np.int64) & _HALF_MASK).view(np.float64)
    rest = (high - x) * (high + x)
    out = _scaled_exp(-high * high - 1.125, rest + _rational(x - 1.5, (tables.MIDDLE_P, tables.MIDDLE_Q)))
    near = x < 1.25
    if near.any():
        out[near] = tables.AT_ONE + _polynomial(x[near] - 1.0, tables.AROUND_ONE_P)
    far = x > 2.5
    if far.any():
        xf, hf = x[far], high[far]
        factor = _rational(1.0 / (xf * xf), (tables.FAR_P, tables.FAR_Q))
        out[far] = _scaled_exp(-hf * hf - 0.5625, rest[far] + factor) / xf
    return out


def _scaled_exp(a: Array, b: Array) -> Array:
    """exp(a + b) for small b: the error of the second factor counts only as far as it differs from 1."""
    whole = np.exp(a)
    return whole + whole * np.expm1(b)


_ROOT_HALF, _ROOT_PI = np.sqrt(0.5), np.sqrt(np.pi)


def _erfinv_double(x: Array) -> Array:
    """x + x R(x**2) up to 0.85; beyond, the normal quantile of (1 + x) / 2 over sqrt(2)."""
    out = x + x * _rational(0.7225 - np.minimum(x * x, 0.7225), (tables.INVERSE_P, tables.INVERSE_Q))
    outer = np.abs(x) > 0.85
    if outer.any():
        far = x[outer]
        out[outer] = _outer_inverse(1.0 - np.abs(far))
    return np.copysign(out, x)


def _outer_inverse(c: Array) -> Array:
    """The inverse of erfc for c < 0.15, with one step of Newton's iteration."""
    z = _outer_quantile(0.5 * c) * _ROOT_HALF
    step = (_upper_tail(z) - c) * (0.5 * _ROOT_PI) * np.exp(np.minimum(z * z, 700.0))
    return np.where(np.isfinite(z), z + step, z)


def _outer_quantile(p: Array) -> Array:
    """-z for the normal quantile z of p < 0.075; infinite at 0, NaN below."""
    r = np.sqrt(-np.log(np.where(p == 0.0, 0.5, p)))
    out = _rational(r - 1.6, DOUBLE.tail)
    far = r > 5.0
    if far.any():
        assert DOUBLE.far is not None
        out[far] = _rational(np.minimum(r[far], 40.0) - 5.0, DOUBLE.far)
    return np.where(p == 0.0, np.inf, out)
