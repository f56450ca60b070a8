"""erfcx: exp(x^2) erfc(x), which neither overflows nor underflows for x > 0.

Source: W. J. Cody, Rational Chebyshev approximations for the error function, Mathematics of Computation 23 (1969); the
coefficients are those of his program CALERF.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.samples import Case
from weft.types import dtype as dt

# numerator and denominator, highest coefficient first
_ERF = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # erf(x) / x in x^2, up to 0.46875
_MIDDLE = (
    (
        2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
        2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
        3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
    ),
)  # erfcx(x) in x, up to 4
_FAR = (
    (
        1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
        1.60837851487422766e-2, 6.58749161529837803e-4,
    ),
    (
        1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)  # (1 / sqrt(pi) - x erfcx(x)) x^2 in 1 / x^2, beyond
_ROOT = 1 / math.sqrt(math.pi)


def _number(s: Any, value: float) -> Any:
    return s.const(float(value), dt.float64)


def _ratio(s: Any, x: Any, coefficients: tuple[Sequence[float], Sequence[float]]) -> Any:
    """A quotient of polynomials, by Horner's rule."""
    values = []
    for part in coefficients:
        value = _number(s, part[0])
        for c in part[1:]:
            value = s.add(s.mul(value, x), _number(s, c))
        values.append(value)
    return s.div(*values)


def _exp_of_square(s: Any, x: Any) -> Any:
    """exp(x^2), of which x^2 rounded would cost digits."""
    near = s.div(s.trunc(s.mul(x, _number(s, 16))), _number(s, 16))
    rest = s.mul(s.sub(x, near), s.add(x, near))
    return s.mul(s.exp(s.mul(near, near)), s.exp(rest))


def _erfcx(s: Any, x: Any) -> Any:
    v = s.cast(x, dt.float64)
    size = s.abs(v)
    low = s.minimum(size, _number(s, 0.46875))
    square = s.mul(low, low)
    signed = s.copysign(low, v)
    near = s.mul(s.exp(square), s.sub(_number(s, 1), s.mul(signed, _ratio(s, square, _ERF))))
    middle = _ratio(s, s.minimum(size, _number(s, 4)), _MIDDLE)
    far = s.maximum(size, _number(s, 4))
    inverse = s.div(_number(s, 1), s.mul(far, far))
    beyond = s.div(s.sub(_number(s, _ROOT), s.mul(inverse, _ratio(s, inverse, _FAR))), far)
    value = s.where(s.gt(size, _number(s, 4)), beyond, middle)
    bounded = s.maximum(v, _number(s, -30))  # (exp(x^2) is infinite there)
    value = s.where(s.lt(v, _number(s, 0)), s.sub(s.mul(_number(s, 2), _exp_of_square(s, bounded)), value), value)
    value = s.where(s.le(size, _number(s, 0.46875)), near, value)
    return s.cast(s.where(s.isnan(v), v, value), s.dtype(x))


def _samples(rng: np.random.Generator) -> list[Case]:
    return [((rng.uniform(-2, 6, (3, 4)),), {}), ((rng.uniform(3, 9, 5),), {})]


def _by_fractions(x: Any) -> Any:
    """An oracle: the definition up to 2, the continued fraction of erfc beyond (Abramowitz and Stegun 7.1.14)."""
    def value(v: float) -> float:
        if v < 2:
            return math.exp(v * v) * math.erfc(v)
        rest = 0.0
        for k in range(200, 0, -1):
            rest = k / 2 / (v + rest)
        return _ROOT / (v + rest)

    return np.vectorize(value, otypes=[np.float64])(x) if np.size(x) else np.zeros(np.shape(x))


erfcx = pointwise(
    "aten::special_erfcx(Tensor self) -> Tensor",
    "exp(x**2) * erfc(x), which stays finite where erfc(x) underflows.",
    scalar=_erfcx,
    compute="real_float",
    inplace=False,
    public=("special",),
    vjp={"self": lambda g, self, result: g * (2.0 * self * result - 2 * _ROOT)},
    samples=_samples,
    reference=_by_fractions,
)
