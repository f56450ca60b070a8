"""Pointwise mathematics: powers, exponentials, logarithms, trigonometry, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.families import Vjp, alias, conjugate, dtype_of, pointwise
from weft.ops.op import NodeBy, Op, Out
from weft.ops.packet import aten
from weft.ops.rules import Pointwise, is_real
from weft.support.errors import DTypeError
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType

LN2, LN10 = math.log(2.0), math.log(10.0)


def _unary(name: str, doc: str, vjp: Vjp, reference: Callable[..., Any], real: bool = False, method: str = "",
           **fields: Any) -> Op:
    """A function of one float, which is a method of the scalar protocol; integers become floats."""
    body: Callable[[Any, Any], Any] = lambda s, x: getattr(s, method or name)(x)  # noqa: E731
    return pointwise(
        f"aten::{name}(Tensor self) -> Tensor", doc, scalar=body, compute="real_float" if real else "float",
        vjp=vjp, reference=reference, **fields,
    )


_ACTIVATION = ("weft", "Tensor", "nn.functional")
exp = _unary("exp", "e to the power of each element.", {"self": lambda g, result: g * conjugate(result)}, np.exp)
exp2 = _unary(
    "exp2", "2 to the power of each element.", {"self": lambda g, result: g * conjugate(result) * LN2}, np.exp2
)
expm1 = _unary(
    "expm1", "exp(x) - 1, accurate near 0.", {"self": lambda g, result: g * conjugate(result + 1)}, np.expm1,
    has_complex_code=False)
log = _unary("log", "Natural logarithm.", {"self": lambda g, self: g / conjugate(self)}, np.log)
log2 = _unary("log2", "Logarithm to base 2.", {"self": lambda g, self: g / conjugate(self * LN2)}, np.log2)
log10 = _unary("log10", "Logarithm to base 10.", {"self": lambda g, self: g / conjugate(self * LN10)}, np.log10)
log1p = _unary(
    "log1p", "log(1 + x), accurate near 0.", {"self": lambda g, self: g / conjugate(self + 1)}, np.log1p,
    has_complex_code=False)
sqrt = _unary("sqrt", "Square root.", {"self": lambda g, result: g / conjugate(2 * result)}, np.sqrt)
rsqrt = _unary(
    "rsqrt", "1 / sqrt(x).", {"self": lambda g, result: -0.5 * g * conjugate(result * result * result)},
    lambda x: 1 / np.sqrt(x))
sin = _unary("sin", "Sine of an angle in radians.", {"self": lambda g, self: g * conjugate(aten.cos(self))}, np.sin)
cos = _unary("cos", "Cosine of an angle in radians.", {"self": lambda g, self: g * -conjugate(aten.sin(self))}, np.cos)
tan = _unary(
    "tan", "Tangent of an angle in radians.", {"self": lambda g, result: g * conjugate(1 + result * result)}, np.tan
)
asin = _unary(
    "asin", "Inverse sine.", {"self": lambda g, self: g * conjugate(aten.rsqrt(1 - self * self))}, np.arcsin,
    has_complex_code=False)
acos = _unary(
    "acos", "Inverse cosine.", {"self": lambda g, self: g * -conjugate(aten.rsqrt(1 - self * self))}, np.arccos,
    has_complex_code=False,
)
atan = _unary(
    "atan", "Inverse tangent.", {"self": lambda g, self: g / conjugate(self * self + 1)}, np.arctan,
    has_complex_code=False)
sinh = _unary("sinh", "Hyperbolic sine.", {"self": lambda g, self: g * conjugate(aten.cosh(self))}, np.sinh)
cosh = _unary("cosh", "Hyperbolic cosine.", {"self": lambda g, self: g * conjugate(aten.sinh(self))}, np.cosh)
tanh = _unary(
    "tanh", "Hyperbolic tangent.", {"self": lambda g, result: g * conjugate(1 - result * result)}, np.tanh,
    public=_ACTIVATION)
asinh = _unary(
    "asinh", "Inverse hyperbolic sine.", {"self": lambda g, self: g * conjugate(aten.rsqrt(self * self + 1))},
    np.arcsinh, has_complex_code=False)
acosh = _unary(
    "acosh", "Inverse hyperbolic cosine.",
    # (self + 1 would make a -0.0 in the imaginary part 0.0, and so take the other side of the cut)
    {"self": lambda g, self: g * conjugate(aten.rsqrt(self - 1) * aten.rsqrt(self - -1))}, np.arccosh,
    has_complex_code=False)
atanh = _unary(
    "atanh", "Inverse hyperbolic tangent.", {"self": lambda g, self: g / conjugate(1 - self * self)}, np.arctanh,
    has_complex_code=False,
)
sigmoid = _unary(
    "sigmoid", "1 / (1 + exp(-x)).", {"self": lambda g, result: g * conjugate(result * (1 - result))},
    lambda x: 1 / (1 + np.exp(-x)), public=_ACTIVATION)

for _op in (asin, acos, atan, asinh, acosh, atanh):
    alias(f"aten::arc{_op.base[1:]}(Tensor self) -> Tensor", _op)


def _over_square(x: Any, a: Any, b: Any) -> Any:
    """x / (a**2 + b**2), 0 at the origin, where there is no angle."""
    square = a * a + b * b
    return aten.where(square == 0, 0, x / square)


atan2 = pointwise(
    "aten::atan2(Tensor self, Tensor other) -> Tensor",
    "The angle of the point (other, self), in (-pi, pi].",
    scalar=lambda s, y, x: s.atan2(y, x),
    compute="real_float",
    number_first=True,
    vjp={
        "self": lambda g, self, other: g * _over_square(other, self, other),
        "other": lambda g, self, other: g * _over_square(-self, self, other),
    },
    reference=np.arctan2,
)
alias("aten::arctan2(Tensor self, Tensor other) -> Tensor", atan2)

hypot = pointwise(
    "aten::hypot(Tensor self, Tensor other) -> Tensor",
    "sqrt(self**2 + other**2), without overflow on the way.",
    scalar=lambda s, x, y: _hypot(s, s.abs(x), s.abs(y)),
    compute="real_float",
    number_first=True,
    vjp={
        "self": lambda g, self, result: g * (self / result),
        "other": lambda g, other, result: g * (other / result),
    },
    reference=np.hypot,
)


def _hypot(s: Any, x: Any, y: Any) -> Any:
    """Scaled by the greater leg; an infinite leg wins over NaN."""
    dtype = s.dtype(x)
    big, small = s.maximum(x, y), s.minimum(x, y)
    zero, one, inf = s.const(0, dtype), s.const(1, dtype), s.const(math.inf, dtype)
    ratio = s.div(small, s.where(s.eq(big, zero), one, big))
    length = s.mul(big, s.sqrt(s.add(one, s.mul(ratio, ratio))))
    return s.where(s.bit_or(s.eq(x, inf), s.eq(y, inf)), inf, length)


copysign = pointwise(
    "aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor",
    "The magnitude of self with the sign of other.",
    node=NodeBy("other", "CopysignBackward1", "CopysignBackward0"),
    scalar=lambda s, x, y: s.copysign(x, y),
    compute="real_float",
    vjp={
        "self": lambda g, self, result: g * aten.where(self == 0, 0, result / self),
        "other": lambda g: aten.zeros_like(g),
    },
    reference=np.copysign,
)


# ---- powers
class _Power(Pointwise):
    """pow's rule: an integer tensor refuses a literal negative integer exponent."""

    def __call__(self, *args: Any) -> Any:
        self.check_numbers(args)
        return super().__call__(*args)

    def check_numbers(self, args: tuple[Any, ...]) -> None:
        base, exponent = args[0], args[1]
        if type(exponent) is not int or exponent >= 0 or not isinstance(base, TensorType):
            return
        if base.dtype is not None and base.dtype.category <= dt.INT:
            raise DTypeError("pow: Integers to negative integer powers are not allowed.")


def _power_base_gradient(g: Any, self: Any, exponent: Any) -> Any:
    """g * exponent * self^(exponent-1), and 0 where the exponent is 0 (also at base 0)."""
    if type(exponent) in (int, float, bool, complex):
        if exponent == 0:
            return aten.zeros_like(g)
        return g * conjugate(exponent * aten.pow(self, exponent - 1))
    slope = g * conjugate(exponent * aten.pow(self, exponent - 1))
    return aten.where(aten.eq(exponent, 0), 0, slope) if dtype_of(exponent) is not None else slope


def _power_exponent_gradient(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    """g * self^exponent * log(self), and 0 where the base is 0 and the exponent not negative."""
    # a negative one has a complex logarithm
    base = aten._to_copy(self, result.dtype) if result.dtype.is_complex and not self.dtype.is_complex else self
    slope = g * conjugate(result * aten.log(base))
    return aten.where(aten.logical_and(self == 0, _not_negative(exponent)), 0, slope)


def _not_negative(exponent: Any) -> Any:
    return (
        exponent >= 0 if not exponent.dtype.is_complex
        else aten.logical_and(aten.imag(exponent) == 0, aten.real(exponent) >= 0)
    )


def _scalar_power_gradient(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    """The gradient of number ** tensor."""
    base = aten.full((), self, dtype=result.dtype)
    return _power_exponent_gradient(g, base, exponent, result)


pow_tensor = pointwise(
    "aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    "self to the power of exponent, element by element.",
    scalar=lambda s, x, e: s.pow(x, e),
    node="PowBackward1",
    rule=_Power,
    numbers=False,
    number_first=True,
    vjp={"self": _power_base_gradient, "exponent": _power_exponent_gradient},
    reference=np.power,
)

pow_number = pointwise(
    "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    "Each element to the power of a number.",
    scalar=lambda s, x, e: s.pow(x, e),
    node="PowBackward0",
    rule=_Power,
    specialize={"exponent": lambda exponent: exponent == 0 or (isinstance(exponent, int) and exponent < 0)},
    numbers=False,
    number_first=True,
    vjp={"self": _power_base_gradient},
    reference=np.power,
)

pow_scalar = pointwise(
    "aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    "A number to the power of each element.",
    scalar=lambda s, x, e: s.pow(x, e),
    numbers=False,
    inplace=False,
    public=("weft",),
    number_first=True,
    vjp={"exponent": _scalar_power_gradient},
    reference=np.power,
)

def _widened(operand: Any, result: Any) -> Any:
    """An operand of float_power as it is computed with."""
    kind = dtype_of(operand)
    return operand if kind is None or kind is result.dtype else aten._to_copy(operand, result.dtype)


def _float_power_exponent_gradient(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    gradient = _scalar_power_gradient if dtype_of(self) is None else _power_exponent_gradient
    return gradient(g, _widened(self, result), _widened(exponent, result), result)


float_power = pointwise(
    "aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    "self to the power of exponent, computed in float64 (complex128 for complex operands).",
    node=NodeBy("exponent", "PowBackward0.float_power", "PowBackward1.float_power"),
    scalar=lambda s, x, e: s.pow(x, e),
    compute=lambda d: dt.complex128 if d.is_complex else dt.float64,
    out=Out("exact"),
    number_first=True,
    vjp={
        "self": lambda g, self, exponent: _power_base_gradient(g, _widened(self, g), _widened(exponent, g)),
        "exponent": _float_power_exponent_gradient,
    },
    reference=lambda x, e: np.power(np.asarray(x, np.result_type(x, np.float64)), e),
)


# ---- rounding
def _rounding(name: str, doc: str, body: Callable[[Any, Any], Any], reference: Callable[..., Any]) -> Op:
    return pointwise(
        f"aten::{name}(Tensor self) -> Tensor",
        doc,
        scalar=lambda s, x: x if s.dtype(x).category <= dt.INT else body(s, x),
        accepts=is_real,
        wants="real numbers",
        vjp={"self": lambda g: aten.zeros_like(g)},
        reference=reference,
    )


floor = _rounding("floor", "The greatest integer not above each element.", lambda s, x: s.floor(x), np.floor)
ceil = _rounding("ceil", "The least integer not below each element.", lambda s, x: s.ceil(x), np.ceil)
trunc = _rounding("trunc", "Each element without its fraction.", lambda s, x: s.trunc(x), np.trunc)
alias("aten::fix(Tensor self) -> Tensor", trunc)
round_ = _rounding("round", "The nearest integer, halves to even.", lambda s, x: s.round(x), np.rint)


def _round_decimals(s: Any, x: Any, decimals: int) -> Any:
    if decimals == 0:
        return s.round(x)
    scale = s.const(10.0 ** abs(decimals), s.dtype(x))
    return s.div(s.round(s.mul(x, scale)), scale) if decimals > 0 else s.mul(s.round(s.div(x, scale)), scale)


round_decimals = pointwise(
    "aten::round.decimals(Tensor self, *, int decimals) -> Tensor",
    "Rounded to a number of decimal places (negative: to tens, hundreds, ...).",
    scalar=_round_decimals,
    over=("self",),
    accepts=lambda d: d.is_floating_point,
    wants="floats",
    vjp={"self": lambda g: aten.zeros_like(g)},
    reference=np.round,
)

frac = pointwise(
    "aten::frac(Tensor self) -> Tensor",
    "The fraction of each element, with its sign.",
    scalar=lambda s, x: s.sub(x, s.trunc(x)),
    accepts=lambda d: d.is_floating_point,
    wants="floats",
    vjp={"self": lambda g: g},
    reference=lambda x: x - np.trunc(x),
)


deg2rad = pointwise(
    "aten::deg2rad(Tensor self) -> Tensor",
    "Degrees as radians.",
    scalar=lambda s, x: s.mul(x, s.const(math.pi / 180, s.dtype(x))),
    compute="real_float",
    vjp={"self": lambda g: g * (math.pi / 180)},
    reference=np.deg2rad,
)

rad2deg = pointwise(
    "aten::rad2deg(Tensor self) -> Tensor",
    "Radians as degrees.",
    scalar=lambda s, x: s.mul(x, s.const(180 / math.pi, s.dtype(x))),
    compute="real_float",
    vjp={"self": lambda g: g * (180 / math.pi)},
    reference=np.rad2deg,
)
