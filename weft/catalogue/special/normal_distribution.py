"""The normal distribution: ndtr, log_ndtr and ndtri; and the entropy of a probability, entr."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.random.draws import lower_quantile
from weft.ops.packet import aten
from weft.types import dtype as dt

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TAU = math.sqrt(2 * math.pi)
_FAR = {dt.float32: (-10.0, 5), dt.float64: (-20.0, 9)}  # below this, so many terms of the series of the tail are exact


def _ndtr(s: Any, x: Any) -> Any:
    dtype = s.dtype(x)
    return s.mul(s.const(0.5, dtype), s.erfc(s.mul(x, s.const(-_ROOT_HALF, dtype))))


def _tail_series(s: Any, x: Any) -> Any:
    """1 - 1/x**2 + 3/x**4 - ..., for x far below 0."""
    dtype = s.dtype(x)
    over = s.div(s.const(1.0, dtype), x)
    over, series = s.mul(over, over), s.const(1.0, dtype)
    for k in range(2 * _FAR[dtype][1] - 1, 0, -2):
        series = s.sub(s.const(1.0, dtype), s.mul(s.mul(series, over), s.const(float(k), dtype)))
    return series


def _density_over_ndtr(s: Any, x: Any) -> Any:
    """exp(-x**2/2) / sqrt(2 pi) / ndtr(x), which is about -x far below 0."""
    dtype = s.dtype(x)
    limit = s.const(_FAR[dtype][0], dtype)
    near, far = s.maximum(x, limit), s.minimum(x, limit)
    density = s.mul(s.exp(s.mul(s.mul(near, s.const(-0.5, dtype)), near)), s.const(1 / _ROOT_TAU, dtype))
    return s.where(s.lt(x, limit), s.neg(s.div(far, _tail_series(s, far))), s.div(density, _ndtr(s, near)))


def _log_ndtr(s: Any, x: Any) -> Any:
    """log(erfc) in the middle, log1p above 0, and far below the series of the tail:
    -x**2/2 - log(-x sqrt(2 pi)) + log(1 - 1/x**2 + 3/x**4 - ...)."""
    dtype = s.dtype(x)

    def const(value: float) -> Any:
        return s.const(value, dtype)

    limit = _FAR[dtype][0]
    below = s.minimum(x, const(limit))
    series = _tail_series(s, below)
    tail = s.sub(s.mul(s.mul(below, const(-0.5)), below), s.log(s.mul(below, const(-_ROOT_TAU))))
    upper = s.log1p(s.mul(s.erfc(s.mul(x, const(_ROOT_HALF))), const(-0.5)))
    near = s.where(s.gt(x, const(0.0)), upper, s.log(_ndtr(s, s.maximum(x, const(limit)))))
    return s.where(s.lt(x, const(limit)), s.add(tail, s.log(series)), near)


def _ndtri(s: Any, p: Any) -> Any:
    """In float64, whose tables reach down to the least number."""
    v = s.cast(p, dt.float64)
    zero, one, half, infinity = (s.const(x, dt.float64) for x in (0.0, 1.0, 0.5, math.inf))
    upper = s.gt(v, half)
    small = s.where(upper, s.sub(one, v), v)
    inside = s.gt(small, zero)
    size = lower_quantile(s, s.where(inside, small, half), lambda s, x: s.log(x))
    size = s.where(inside, size, s.where(s.eq(small, zero), infinity, s.const(math.nan, dt.float64)))
    return s.cast(s.where(upper, size, s.neg(size)), s.dtype(p))


def _entr(s: Any, x: Any) -> Any:
    dtype = s.dtype(x)
    zero = s.const(0.0, dtype)
    return s.where(s.lt(x, zero), s.const(-math.inf, dtype), s.where(s.eq(x, zero), zero, s.neg(s.mul(x, s.log(x)))))


def _density(x: Any) -> Any:
    return aten.exp(x * x * -0.5) / _ROOT_TAU


def _cdf(x: float) -> float:
    return math.erfc(-x * _ROOT_HALF) / 2


def _exact_quantile(p: float) -> float:
    from statistics import NormalDist  # for the oracle only, and slow to import

    return NormalDist().inv_cdf(p) if 0 < p < 1 else math.copysign(math.inf, p - 0.5) if p in (0, 1) else math.nan


def _function(name: str, doc: str, scalar: Any, slope: Any, exact: Any = None) -> None:
    def reference(x: Any) -> Any:
        return np.vectorize(exact, otypes=[np.float64])(x) if np.size(x) else np.zeros(np.shape(x))

    pointwise(
        f"aten::special_{name}(Tensor self) -> Tensor", doc, scalar=scalar, compute="real_float", public=("special",),
        inplace=False, vjp={"self": slope}, reference=None if exact is None else reference,
    )


pointwise(
    "aten::_density_over_ndtr(Tensor self) -> Tensor",
    "The density of the standard normal distribution over ndtr: the slope of log_ndtr.",
    scalar=_density_over_ndtr, compute="real_float", public=(), inplace=False, out=False,
    vjp={"self": lambda g, self, result: g * (-result * (self + result))},
    reference=lambda x: np.exp(x * x * -0.5) / _ROOT_TAU / np.vectorize(_cdf, otypes=[np.float64])(x),
)
_function(
    "ndtr", "The distribution function of the standard normal distribution.",
    _ndtr, lambda g, self: g * _density(self), _cdf,
)
_function("log_ndtr", "The logarithm of ndtr, exact far below 0 too.", _log_ndtr,
          lambda g, self: g * aten._density_over_ndtr(self), lambda x: math.log(_cdf(x)))
_function(
    "ndtri", "The quantiles of the standard normal distribution: the inverse of ndtr on [0, 1], NaN outside.", _ndtri,
    lambda g, result: g * (aten.exp(result * result * 0.5) * _ROOT_TAU), _exact_quantile,
)
_function(
    "entr", "-x log x, 0 at 0 and -inf below.", _entr,
    lambda g, self: g * (-aten.log(self) - 1),
    lambda x: -x * math.log(x) if x > 0 else 0.0 if x == 0 else -math.inf,
)
