"""Special functions: the error function's family, x log y, log-sum of two, logit, sinc."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.catalogue.families import conjugate, dtype_of, no_formula, pointwise
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.support.errors import DTypeError
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _elementwise(fn: Any) -> Any:
    """An oracle from a function of Python floats."""
    return lambda x: np.vectorize(fn, otypes=[np.float64])(x) if np.size(x) else np.zeros(np.shape(x))


def _erfinv(v: float) -> float:
    from statistics import NormalDist  # for the oracle only, and slow to import

    if abs(v) < 1:
        return NormalDist().inv_cdf((v + 1) / 2) / math.sqrt(2)
    return math.copysign(math.inf if abs(v) == 1 else math.nan, v)


erf = pointwise(
    "aten::erf(Tensor self) -> Tensor",
    "The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x.",
    scalar=lambda s, x: s.erf(x),
    compute="real_float",
    vjp={"self": lambda g, self: g * (aten.exp(-self * self) * _TWO_OVER_ROOT_PI)},
    reference=_elementwise(math.erf),
)

erfc = pointwise(
    "aten::erfc(Tensor self) -> Tensor",
    "1 - erf(x), accurate where that is small.",
    scalar=lambda s, x: s.erfc(x),
    compute="real_float",
    vjp={"self": lambda g, self: g * (aten.exp(-self * self) * -_TWO_OVER_ROOT_PI)},
    reference=_elementwise(math.erfc),
)

erfinv = pointwise(
    "aten::erfinv(Tensor self) -> Tensor",
    "The inverse of erf on [-1, 1]; NaN outside.",
    scalar=lambda s, x: s.erfinv(x),
    compute="real_float",
    vjp={"self": lambda g, self: g * (aten.exp(aten.square(aten.erfinv(self))) / _TWO_OVER_ROOT_PI)},
    reference=_elementwise(_erfinv),
)


def _xlogy(s: Any, x: Any, y: Any, log: Any) -> Any:
    zero = s.const(0, s.dtype(x))
    return s.where(s.isnan(y), y, s.where(s.eq(x, zero), zero, s.mul(x, log(y))))


xlogy = pointwise(
    "aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
    "self * log(other), and 0 where self is 0 (unless other is NaN).",
    scalar=lambda s, x, y: _xlogy(s, x, y, s.log),
    compute="real_float",
    number_first=True,
    vjp={
        "self": lambda g, self, other: g * aten.where(_both_vanish(self, other), 0, aten.log(_tensor_like(other, g))),
        "other": lambda g, self, other: g * (self / other),
    },
    reference=lambda x, y: np.where(np.asarray(x) == 0, 0.0, x * np.log(np.where(np.asarray(x) == 0, 1.0, y))),
)


def _both_vanish(x: Any, y: Any) -> Any:
    """Where x is 0 and log y has no finite value: the gradient is 0 by convention."""
    return aten.logical_and(aten.eq(x, 0), aten.le(_tensor_like(y, x), 0))


def _tensor_like(value: Any, like: Any) -> Any:
    """A number as a 0-dim tensor, so that functions of tensors take it."""
    return value if dtype_of(value) is not None else aten.full((), value, dtype=like.dtype)


xlog1py = pointwise(
    "aten::special_xlog1py(Tensor self, Tensor other) -> Tensor",
    "self * log(1 + other), and 0 where self is 0 (unless other is NaN).",
    scalar=lambda s, x, y: _xlogy(s, x, y, s.log1p),
    compute="real_float",
    inplace=False,
    number_first=True,
    public=("special",),
    vjp={
        "self": lambda g, self, other: g * aten.where(
            aten.logical_and(aten.eq(self, 0), aten.le(_tensor_like(other, g), -1)), 0,
            aten.log1p(_tensor_like(other, g))),
        "other": lambda g, self, other: g * (self / (other + 1)),
    },
    reference=lambda x, y: x * np.log1p(y),
)


def _has_nan(s: Any, x: Any) -> Any:
    return s.bit_or(s.isnan(s.real(x)), s.isnan(s.imag(x)))


def _log_add(s: Any, a: Any, b: Any, exp: Any, log1p: Any) -> Any:
    """The greater plus a correction; equal infinities stay."""
    if s.dtype(a).is_complex:
        is_less = s.lt(s.real(a), s.real(b))
        small, great = s.where(is_less, a, b), s.where(is_less, b, a)
        sum_ = s.add(log1p(exp(s.sub(small, great))), great)  # the angle goes on from the greater's, as in PyTorch
        least = s.real(great)
        is_nothing = s.bit_and(s.isinf(least), s.lt(least, s.const(0, s.dtype(least))))  # exp of both is 0
        is_nan = s.bit_or(_has_nan(s, a), _has_nan(s, b))
        return s.where(is_nan, s.const(complex(math.nan, math.nan), s.dtype(a)), s.where(is_nothing, small, sum_))
    zero = s.const(0, s.dtype(a))
    sum_ = s.add(s.maximum(a, b), log1p(exp(s.neg(s.abs(s.sub(a, b))))))
    return s.where(s.bit_and(s.eq(a, b), s.isinf(a)), s.add(a, zero), sum_)


logaddexp = pointwise(
    "aten::logaddexp(Tensor self, Tensor other) -> Tensor",
    "log(exp(self) + exp(other)), without overflow on the way.",
    scalar=lambda s, a, b: _log_add(s, a, b, s.exp, s.log1p),
    compute="float",
    has_complex_code=False,
    inplace=False,
    number_first=True,
    vjp={
        "self": lambda g, self, other: g / conjugate(1 + aten.exp(other - self)),
        "other": lambda g, self, other: g / conjugate(1 + aten.exp(self - other)),
    },
    reference=np.logaddexp,
)

logaddexp2 = pointwise(
    "aten::logaddexp2(Tensor self, Tensor other) -> Tensor",
    "log2(2**self + 2**other), without overflow on the way.",
    scalar=lambda s, a, b: _log_add(
        s, a, b, s.exp2, lambda x: s.mul(s.log1p(x), s.const(1 / math.log(2), s.dtype(x)))),
    compute="real_float",
    inplace=False,
    numbers=False,
    vjp={
        "self": lambda g, self, other: g / (1 + aten.exp2(other - self)),
        "other": lambda g, self, other: g / (1 + aten.exp2(self - other)),
    },
    reference=np.logaddexp2,
)


def _sinc(s: Any, x: Any) -> Any:
    dtype = s.dtype(x)
    zero, one = s.const(0, dtype), s.const(1, dtype)
    at_zero = s.eq(x, zero)
    angle = s.mul(s.where(at_zero, one, x), s.const(math.pi, dtype))
    return s.where(at_zero, one, s.div(s.sin(angle), angle))


def _sinc_gradient(g: Any, self: Any) -> Any:
    angle = self * math.pi
    square = angle * self
    slope = (angle * aten.cos(angle) - aten.sin(angle)) / square
    return g * conjugate(aten.where(square == 0, 0, slope))


sinc = pointwise(
    "aten::sinc(Tensor self) -> Tensor",
    "sin(pi x) / (pi x), and 1 at 0.",
    scalar=_sinc,
    compute="float",
    vjp={"self": _sinc_gradient},
    reference=np.sinc,
)

_logit = parse_schema("aten::logit(Tensor self, float? eps=None) -> Tensor")


def _logit_value(s: Any, x: Any, eps: float | None) -> Any:
    dtype = s.dtype(x)
    one = s.const(1, dtype)
    if eps is not None:
        low, high = s.const(eps, dtype), s.const(1 - eps, dtype)
        x = s.minimum(s.maximum(x, low), high)
    return s.log(s.div(x, s.sub(one, x)))


def _logit_gradient(g: Any, self: Any, eps: float | None) -> Any:
    slope = g / aten.abs(self * (1 - self))  # (of -0.0 as of 0)
    if eps is None:
        return aten.where(aten.logical_and(self >= 0, self <= 1), slope, math.nan)
    return aten.where(aten.logical_and(self >= eps, self <= 1 - eps), slope, 0)


logit = define(
    _logit,
    "log(x / (1 - x)), of x clamped to [eps, 1 - eps] if eps is given.",
    type=Pointwise(_logit, compute="real_float"),
    scalar=_logit_value,
    vjp={"self": _logit_gradient},
    inplace=True,
    out=True,
    reference=lambda x, eps: np.log(np.clip(x, eps, 1 - eps) / (
        1 - np.clip(x, eps, 1 - eps)
    )) if eps is not None else np.log(x / (1 - x)),
)


class _SameDtype(Pointwise):
    """The rule of heaviside: real tensors of one dtype."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        dtypes = [a.dtype for a in args if isinstance(a, TensorType) and a.dtype is not None]
        if len(set(dtypes)) > 1:
            raise DTypeError("heaviside is not yet implemented for tensors with different dtypes.")
        if dtypes[0].is_complex:
            raise DTypeError("heaviside is not yet implemented for complex tensors.")
        return dtypes[0]


heaviside = pointwise(
    "aten::heaviside(Tensor self, Tensor values) -> Tensor",
    "0 where self is negative (or NaN), 1 where it is positive, values where it is 0.",
    scalar=lambda s, x, v: s.where(
        s.eq(x, s.const(0, s.dtype(x))), v,
        s.where(s.gt(x, s.const(0, s.dtype(x))), s.const(1, s.dtype(x)), s.const(0, s.dtype(x)))),
    rule=_SameDtype,
    out=Out("exact"),
    numbers=False,
    vjp=no_formula("heaviside", "self", "values"),
    reference=np.heaviside,
)
