"""airy_ai: Airy's function Ai.

Its power series between -2 and 0.75 (Abramowitz and Stegun 10.4.2), a polynomial down to -5, quotients of polynomials
times the exponential upwards, and two slow factors that turn with sine and cosine below (10.4.59, 10.4.60).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.catalogue.samples import Case
from weft.catalogue.special import bessel_tables as tables
from weft.catalogue.special.cylinder_functions import number, of_reals, polynomial, quotient

Array = Any
_LOWEST, _LOW, _MIDDLE, _HIGH, _CENTRE = -5.0, -2.0, 0.75, 4.0, -3.5  # of the tables
_END = 104.0  # beyond which it is 0 in float64, as in PyTorch
_AT_ZERO, _SLOPE = 0.35502805388781723926, -0.25881940379280679840


def _terms(first: int, count: int = 16) -> tuple[float, ...]:
    """Coefficients in x**3 of the series with y'' = x y that begins with x**first."""
    out = [1.0]
    for k in range(1, count):
        n = 3 * k + first
        out.append(out[-1] / (n * (n - 1)))
    return tuple(out)


_EVEN, _ODD = _terms(0), _terms(1)


def _airy(s: Any, x: Any) -> Any:
    near = s.minimum(s.maximum(x, number(s, _LOW)), number(s, _MIDDLE))
    cube = s.mul(near, s.mul(near, near))
    slope = s.mul(s.mul(near, polynomial(s, cube, _ODD)), number(s, _SLOPE))
    value = s.add(s.mul(polynomial(s, cube, _EVEN), number(s, _AT_ZERO)), slope)
    wave = s.sub(s.minimum(s.maximum(x, number(s, _LOWEST)), number(s, _LOW)), number(s, _CENTRE))
    value = s.where(s.lt(x, number(s, _LOW)), polynomial(s, wave, tables.AIRY_WAVE_P), value)
    size = s.abs(x)
    root = s.sqrt(size)
    zeta = s.mul(s.mul(size, root), number(s, 2 / 3))
    falling = s.where(
        s.lt(x, number(s, _HIGH)),
        quotient(s, s.minimum(size, number(s, _HIGH)), "AIRY_MIDDLE"),
        quotient(s, s.div(number(s, 1), s.maximum(zeta, number(s, 2 / 3 * _HIGH**1.5))), "AIRY_FALLING"),
    )
    fourth = s.sqrt(s.maximum(root, number(s, 0.25)))
    falling = s.div(s.mul(falling, s.exp(s.neg(zeta))), s.mul(fourth, number(s, 2 * math.sqrt(math.pi))))
    value = s.where(s.gt(x, number(s, _MIDDLE)), falling, value)
    value = s.where(s.gt(x, number(s, _END)), number(s, 0), value)
    value = s.where(s.lt(x, number(s, _LOWEST)), _turning(s, zeta, fourth), value)
    return s.where(s.isinf(x), number(s, math.nan), value)


def _turning(s: Any, zeta: Any, fourth: Any) -> Any:
    """For x below -5: sine and cosine of zeta + pi/4 from those of zeta."""
    inverse = s.div(number(s, 1), s.maximum(zeta, number(s, 2 / 3 * -_LOWEST * math.sqrt(-_LOWEST))))
    square = s.mul(inverse, inverse)
    sine, cosine = s.sin(zeta), s.cos(zeta)
    p = s.mul(quotient(s, square, "AIRY_SINE"), s.add(sine, cosine))
    q = s.mul(s.mul(quotient(s, square, "AIRY_COSINE"), inverse), s.sub(cosine, sine))
    return s.div(s.sub(p, q), s.mul(fourth, number(s, math.sqrt(2 * math.pi))))


def _samples(rng: np.random.Generator) -> list[Case]:
    return [((rng.uniform(-9, 5, (3, 4)),), {}), ((rng.uniform(-3, 1, 5),), {})]


def _integral(x: Array) -> Array:
    """An oracle: the integral of cos(t^3 / 3 + x t) over pi, along t + i where it falls."""
    t = np.arange(-12, 12, 1 / 256) + 1j
    z = np.asarray(x, np.float64)[..., None]
    return (np.exp(1j * (t**3 / 3 + z * t)).sum(-1) / 256).real / (2 * math.pi)


of_reals("airy_ai", "Airy's function Ai, which solves y'' = x y and falls for positive x.", _airy, _samples, _integral)
