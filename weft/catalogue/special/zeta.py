"""zeta: Hurwitz's function, the sum of (q + k)^-x over k = 0, 1, 2, ...

The first terms, and the rest by Euler and Maclaurin (Abramowitz and Stegun 23.1.30). For negative q, where x is an
integer, the terms before zero are those of two positive arguments.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.samples import Case
from weft.ops.packet import aten
from weft.types import dtype as dt

_TERMS = 10
# B2k / (2k)!
_CORRECTIONS = tuple(
    float(Fraction(p, q * math.factorial(2 * k))) for k, (p, q) in enumerate((
        (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798),
        (-174611, 330), (854513, 138), (-236364091, 2730),
    ), 1)
)  # fmt: skip
_LARGE = 1e8  # q beyond which two terms of the asymptotic series are exact


def _number(s: Any, value: float) -> Any:
    return s.const(float(value), dt.float64)


def _of_positive(s: Any, x: Any, q: Any) -> Any:
    """For x > 1 and q > 0."""
    one, power = _number(s, 1), s.neg(x)
    total = s.pow(q, power)
    for k in range(1, _TERMS):
        total = s.add(total, s.pow(s.add(q, _number(s, k)), power))
    last = s.add(q, _number(s, _TERMS))
    term = s.pow(last, power)
    rest = s.add(s.div(s.mul(term, last), s.sub(x, one)), s.mul(term, _number(s, 0.5)))
    factor = s.mul(s.div(x, last), term)
    for k, correction in enumerate(_CORRECTIONS):
        rest = s.add(rest, s.mul(factor, _number(s, correction)))
        rising = s.div(s.add(x, _number(s, 2 * k + 1)), last)
        factor = s.mul(s.mul(factor, rising), s.div(s.add(x, _number(s, 2 * k + 2)), last))
    value = s.add(total, s.where(s.eq(term, _number(s, 0)), term, rest))
    inverse = s.div(one, q)
    far = s.mul(s.add(s.div(one, s.sub(x, one)), s.mul(inverse, _number(s, 0.5))), s.pow(q, s.sub(one, x)))
    return s.where(s.gt(q, _number(s, _LARGE)), far, value)


def _zeta(s: Any, x: Any, q: Any) -> Any:
    v, w = s.cast(x, dt.float64), s.cast(q, dt.float64)
    zero, one = _number(s, 0), _number(s, 1)
    is_low = s.lt(w, zero)
    part = s.sub(w, s.floor(w))  # of a negative q, the first positive argument that its terms come to
    first = s.where(is_low, part, w)
    value = _of_positive(s, v, first)
    before = s.sub(_of_positive(s, v, s.sub(one, part)), _of_positive(s, v, s.sub(one, w)))
    half = s.mul(v, _number(s, 0.5))
    before = s.where(s.eq(half, s.floor(half)), before, s.neg(before))
    value = s.where(is_low, s.add(value, before), value)
    value = s.where(s.bit_and(is_low, s.ne(v, s.floor(v))), _number(s, math.nan), value)
    at_pole = s.bit_and(s.le(w, zero), s.eq(w, s.floor(w)))
    value = s.where(s.bit_or(at_pole, s.eq(v, one)), _number(s, math.inf), value)
    value = s.where(s.bit_or(s.lt(v, one), s.bit_or(s.isnan(v), s.isnan(w))), _number(s, math.nan), value)
    return s.cast(value, s.dtype(x))


def _samples(rng: np.random.Generator) -> list[Case]:
    return [
        ((rng.uniform(1.5, 6, (3, 4)), rng.uniform(0.3, 9, (3, 4))), {}),
        ((np.array([2.0, 3.0, 4.0]), rng.integers(-4, 0, 3) + rng.uniform(0.2, 0.8, 3)), {}),
    ]


def _direct(x: Any, q: Any) -> Any:
    """An oracle: 3000 terms, the rest by the midpoint rule and its correction."""
    x, q = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(q, np.float64))
    with np.errstate(all="ignore"):
        terms = np.sum((q[..., None] + np.arange(3000.0)) ** -x[..., None], -1)
        z = q + 3000 - 0.5
        value = terms + z ** (1 - x) / (x - 1) - x / 24 * z ** (-x - 1)
    return np.where(x < 1, np.nan, np.where((x == 1) | ((q <= 0) & (q == np.floor(q))), np.inf, value))


zeta = pointwise(
    "aten::special_zeta(Tensor self, Tensor other) -> Tensor",
    "Hurwitz's zeta function: the sum of (other + k) ** -self over k = 0, 1, 2, ... Its gradient is that by `other`.",
    scalar=_zeta,
    compute="real_float",
    inplace=False,
    number_first=True,
    public=("special",),
    vjp={"other": lambda g, self, other: g * -self * aten.special_zeta(self + 1, other)},
    samples=_samples,
    reference=_direct,
)
