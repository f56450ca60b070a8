"""The gamma function's family: lgamma, digamma, polygamma, mvlgamma.

All are computed in float64 by the asymptotic series (Abramowitz and Stegun 6.1.40, 6.3.18, 6.4.11), from an argument
of at least 8 that recurrence reaches, and by reflection below 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.samples import Case, P, case, draw
from weft.catalogue.special.gamma_zeros import lgamma_beside_zeros
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.support.errors import ShapeError
from weft.types import dtype as dt

# B2, B4, ... as fractions
_BERNOULLI = ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510))
_STEPS = 8  # of the recurrence, for arguments below it


def _number(s: Any, value: float) -> Any:
    return s.const(float(value), dt.float64)


def _series(s: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule, lowest coefficient first."""
    value = _number(s, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = s.add(s.mul(value, x), _number(s, c))
    return value


def _reflected(s: Any, v: Any) -> tuple[Any, Any, Any]:
    """Whether v < 1/2, then 1 - v, else v; and v less the nearest integer."""
    below = s.lt(v, _number(s, 0.5))
    return below, s.where(below, s.sub(_number(s, 1), v), v), s.sub(v, s.round(v))


def _raised(s: Any, z: Any) -> tuple[Any, Any]:
    """Whether z is below the series' reach, and z raised into it."""
    low = s.lt(z, _number(s, _STEPS))
    return low, s.where(low, s.add(z, _number(s, _STEPS)), z)


def _cotangent(s: Any, offset: Any) -> Any:
    """cot(pi offset) for |offset| <= 1/2, exactly 0 at both ends."""
    size = s.abs(offset)
    is_flat = s.gt(size, _number(s, 0.25))
    tangent = s.tan(s.mul(s.where(is_flat, s.sub(_number(s, 0.5), size), size), _number(s, math.pi)))
    return s.copysign(s.where(is_flat, tangent, s.div(_number(s, 1), tangent)), offset)


def _away_from_poles(rng: np.random.Generator) -> list[Case]:
    return [((rng.integers(-3, 4, (3, 4)) + rng.uniform(0.2, 0.8, (3, 4)),), {}), ((rng.uniform(1, 40, 5),), {})]


# ---- the logarithm of |gamma|


def zeta_less_1(k: int, terms: int = 60) -> float:
    """Riemann's zeta at k, less 1: the first terms, the rest by Euler and Maclaurin."""
    rest = (
        terms ** (1.0 - k) / (k - 1) + terms**-k / 2 + k * terms ** (-k - 1.0) / 12
        - k * (k + 1) * (k + 2) * terms ** (-k - 3.0) / 720
        + k * (k + 1) * (k + 2) * (k + 3) * (k + 4) * terms ** (-k - 5.0) / 30240
    )
    return math.fsum([n ** -float(k) for n in range(2, terms)] + [rest])


# lgamma(2 + x) / x in powers of x
_AT_2 = (1 - 0.57721566490153286061, *[(-1) ** k * zeta_less_1(k) / k for k in range(2, 30)])


def _lgamma_near_2(s: Any, z: Any) -> Any:
    """For z from 1/2 to 5/2, where lgamma is 0 twice: its series around 2, and from 1 there by the recurrence
    (6.1.33)."""
    around_1 = s.lt(z, _number(s, 1.5))
    x = s.sub(z, s.where(around_1, _number(s, 1), _number(s, 2)))
    x = s.maximum(s.minimum(x, _number(s, 0.5)), _number(s, -0.5))
    value = s.mul(x, _series(s, x, _AT_2))
    return s.where(around_1, s.sub(value, s.log1p(x)), value)


_STIRLING = tuple(p / (q * 2 * k * (2 * k - 1)) for k, (p, q) in enumerate(_BERNOULLI, 1))


def _lgamma(s: Any, x: Any) -> Any:
    v = s.cast(x, dt.float64)
    below, z, offset = _reflected(s, v)
    far = s.maximum(z, _number(s, _STEPS))
    inverse = s.div(_number(s, 1), far)
    tail = s.mul(inverse, _series(s, s.mul(inverse, inverse), _STIRLING))
    value = s.sub(s.mul(s.sub(far, _number(s, 0.5)), s.log(far)), far)
    value = s.add(s.add(value, _number(s, 0.5 * math.log(2 * math.pi))), tail)
    # below that, down to between 1/2 and 5/2: nothing that is added is much greater than the sum
    near, product = z, _number(s, 1)
    for k in range(1, _STEPS - 1):
        lower = s.sub(z, _number(s, k))
        goes = s.ge(lower, _number(s, 1.5))
        near = s.where(goes, lower, near)
        product = s.mul(product, s.where(goes, lower, _number(s, 1)))
    value = s.where(s.lt(z, _number(s, _STEPS)), s.add(_lgamma_near_2(s, near), s.log(product)), value)
    sine = s.div(s.sin(s.mul(offset, _number(s, math.pi))), _number(s, math.pi))
    # (the least numbers have no digits left for a product)
    sine = s.abs(s.where(s.lt(s.abs(offset), _number(s, 1e-100)), offset, sine))
    value = s.where(below, s.sub(s.neg(s.log(sine)), value), value)
    if s.dtype(x) is dt.float64:  # narrower numbers lose nothing that they hold
        inside = s.bit_and(s.lt(v, _number(s, -2)), s.gt(v, _number(s, -18)))
        is_small = s.bit_and(inside, s.lt(s.abs(value), _number(s, 2)))
        value = s.where(is_small, lgamma_beside_zeros(s, v, _cotangent(s, offset), _STIRLING), value)
    at_pole = s.bit_and(below, s.eq(offset, _number(s, 0)))
    return s.cast(s.where(s.bit_or(s.isinf(v), at_pole), _number(s, math.inf), value), s.dtype(x))


lgamma = pointwise(
    "aten::lgamma(Tensor self) -> Tensor",
    "The logarithm of the magnitude of the gamma function.",
    scalar=_lgamma,
    compute="real_float",
    vjp={"self": lambda g, self: g * aten.digamma(self)},
    samples=_away_from_poles,
    reference=lambda x: np.vectorize(math.lgamma, otypes=[np.float64])(x) if np.size(x) else np.zeros(np.shape(x)),
)

# ---- its derivatives


def _digamma(s: Any, x: Any) -> Any:
    v = s.cast(x, dt.float64)
    zero = _number(s, 0)
    below, z, offset = _reflected(s, v)
    low, far = _raised(s, z)
    inverse = s.div(_number(s, 1), far)
    square = s.mul(inverse, inverse)
    tail = s.mul(square, _series(s, square, [p / (q * 2 * k) for k, (p, q) in enumerate(_BERNOULLI, 1)]))
    value = s.sub(s.sub(s.log(far), s.mul(inverse, _number(s, 0.5))), tail)
    near = s.where(low, z, _number(s, 1))
    sum_ = s.div(_number(s, 1), near)
    for k in range(1, _STEPS):
        sum_ = s.add(sum_, s.div(_number(s, 1), s.add(near, _number(s, k))))
    value = s.where(low, s.sub(value, sum_), value)
    value = s.where(below, s.sub(value, s.mul(_cotangent(s, offset), _number(s, math.pi))), value)
    at_pole = s.bit_and(s.eq(offset, zero), s.lt(v, zero))
    value = s.where(at_pole, _number(s, math.nan), value)
    return s.cast(s.where(s.eq(v, zero), s.copysign(_number(s, math.inf), s.neg(v)), value), s.dtype(x))


digamma = pointwise(
    "aten::digamma(Tensor self) -> Tensor",
    "The derivative of lgamma.",
    scalar=_digamma,
    compute="real_float",
    vjp={"self": lambda g, self: g * aten.polygamma(1, self)},
    samples=_away_from_poles,
    reference=lambda x: _differences(x),
)


def _differences(x: Any) -> Any:
    """An oracle: the recurrence to 40, then log x - 1/(2x) - 1/(12 x^2) + 1/(120 x^4) - 1/(252 x^6)."""
    x = np.asarray(x, np.float64)
    total = sum((-1 / (x + k) for k in range(40)), start=np.zeros_like(x))
    z = x + 40
    total = np.where((x < 0) & (x == np.rint(x)), np.nan, total)
    return total + np.log(z) - 1 / (2 * z) - 1 / (12 * z**2) + 1 / (120 * z**4) - 1 / (252 * z**6)


def cotangent_polynomial(n: int) -> list[int]:
    """The P with d^n/dy^n cot(y) = P(cot y), lowest coefficient first: P' times -(1 + c^2), n times."""
    terms = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(terms)][1:]
        terms = [-(slope[k] if k < len(slope) else 0) - (slope[k - 2] if k >= 2 else 0) for k in range(len(slope) + 2)]
    return terms


def _power(s: Any, x: Any, n: int) -> Any:
    out = x
    for _ in range(n - 1):
        out = s.mul(out, x)
    return out


def _polygamma(s: Any, n: int, x: Any) -> Any:
    if n < 0:
        raise ShapeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return _digamma(s, x)
    v = s.cast(x, dt.float64)
    below, z, offset = _reflected(s, v)
    # the recurrence is followed always: of a high order the series needs more than 8 to be exact, where z + 8 does
    far = s.add(z, _number(s, _STEPS))
    inverse = s.div(_number(s, 1), far)
    square = s.mul(inverse, inverse)
    rising = [
        p * math.factorial(2 * k + n - 1) / (q * math.factorial(2 * k) * math.factorial(n))
        for k, (p, q) in enumerate(_BERNOULLI, 1)
    ]
    tail = s.add(s.add(_number(s, 1 / n), s.mul(inverse, _number(s, 0.5))), s.mul(square, _series(s, square, rising)))
    value = s.mul(tail, _power(s, inverse, n))
    for k in reversed(range(_STEPS)):
        value = s.add(value, _power(s, s.div(_number(s, 1), s.add(z, _number(s, k))), n + 1))
    sign = 1.0 if n % 2 else -1.0
    value = s.mul(value, _number(s, sign * math.factorial(n)))
    cotangent = _cotangent(s, offset)
    turned = s.mul(_series(s, cotangent, [float(c) for c in cotangent_polynomial(n)]), _number(s, math.pi ** (n + 1)))
    value = s.where(below, s.sub(s.mul(value, _number(s, -sign)), turned), value)
    at_pole = s.bit_and(s.eq(offset, _number(s, 0)), s.le(v, _number(s, 0)))
    return s.cast(s.where(at_pole, _number(s, sign * math.inf), value), s.dtype(x))


_POLYGAMMA = parse_schema("aten::polygamma(int n, Tensor self) -> Tensor")


def _zeta_sum(n: int, x: Any) -> Any:
    """An oracle for x > 0: the first 2000 terms of the series, the rest by the midpoint rule and its correction."""
    k = np.arange(2000.0)
    x = np.asarray(x, np.float64)
    z = x + 2000 - 0.5
    return (-1) ** (n + 1) * math.factorial(n) * (
        np.sum((x[..., None] + k) ** -(n + 1.0), -1) + z ** (-n * 1.0) / n - (n + 1) / 24 * z ** (-n - 2.0)
    )


for _schema, _places in (
    ((_POLYGAMMA, ("weft",)), (parse_schema("aten::special_polygamma(int n, Tensor self) -> Tensor"), ("special",)))
):
    define(
        _schema,
        "The n-th derivative of digamma.",
        node="" if _schema is _POLYGAMMA else "PolygammaBackward0.special",
        type=Pointwise(_schema, over=("self",), compute="real_float"),
        scalar=_polygamma,
        vjp={"self": lambda g, n, self: g * aten.polygamma(n + 1, self)},
        public=_places,
        out=True,
        samples=draw(case(1, P(3, 4)), case(2, P(3)), case(3, P(2, 2))),
        reference=_zeta_sum,
    )


def _mvlgamma(self: Any, p: int) -> Any:
    if p < 1:
        raise ShapeError("p has to be greater than or equal to 1")
    steps = aten.arange(p, dtype=self.dtype if self.dtype.is_differentiable else dt.get_default()) * -0.5
    constant = aten.sum(aten.arange(p, dtype=dt.float64)) * (math.log(math.pi) / 2)  # p (p - 1) / 4 log pi
    return aten.sum(aten.lgamma(aten.unsqueeze(self, -1) + steps), -1) + constant


define(
    "aten::mvlgamma(Tensor self, int p) -> Tensor",
    "The logarithm of the multivariate gamma function of dimension p.",
    decompose=_mvlgamma,
    inplace=True,
    out=Out("castable"),
)
