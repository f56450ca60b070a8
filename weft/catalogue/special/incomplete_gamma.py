"""The regularized incomplete gamma functions: igamma (lower, P) and igammac (upper, Q).

P by its power series where x <= a, Q by its continued fraction beyond (Abramowitz and Stegun 6.5.29 and 6.5.31), the
other one by 1 - it. The factor x^a e^-x / gamma(a) is that of Stirling's formula, without cancelled digits. Where a is
huge both take too many steps: Temme's uniform expansion (The asymptotic expansion of the incomplete gamma functions,
SIAM J. Math. Anal. 10, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.samples import P, case, draw
from weft.catalogue.special.gamma import zeta_less_1
from weft.ops.compute import type_of
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.types import dtype as dt
from weft.types.dtype import DType

Array = Any  # of float64
_EPS = 2.0**-53
_HUGE = 1e6  # a from which on two terms of Temme's expansion are exact
_STEPS = 20_000
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
# c0 and c1 of Temme's expansion in powers of eta, lowest first
_TEMME = (
    (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 1 / 25515, -571 / 261273600),
    (-1 / 540, -1 / 288, 1 / 378, -77 / 77760, 1 / 4860),
)


def _gap(mu: Array) -> Array:
    """mu - log(1 + mu), exact for small mu."""
    r = mu / (2 + mu)
    square = r * r
    tail = np.zeros_like(r)
    for k in range(25, 1, -2):
        tail = tail * square + 1 / k
    near = mu * mu / (2 + mu) - 2 * r * square * tail
    return np.where(np.abs(mu) < 0.4, near, mu - np.log1p(mu))


def _factor(a: Array, x: Array) -> Array:
    """x^a e^-x / gamma(a)."""
    large = np.maximum(a, 10.0)
    inverse = 1 / large
    tail = np.zeros_like(a)
    for c in reversed(_STIRLING):
        tail = tail * inverse * inverse + c
    smooth = np.sqrt(large / (2 * math.pi)) * np.exp(-large * _gap((x - large) / large) - tail * inverse)
    small = np.minimum(a, 10.0)
    gamma = np.vectorize(math.gamma, otypes=[np.float64])(np.maximum(small, 1e-300)) if a.size else small
    return np.where(a >= 10, smooth, x**small * np.exp(-x) / gamma)


def _series(a: Array, x: Array) -> Array:
    """P, for x <= a or small x."""
    term = np.ones_like(x)
    total = term.copy()
    for n in range(1, _STEPS):
        term = term * x / (a + n)
        total += term
        if not np.any(term > total * _EPS):
            break
    return _factor(a, x) / a * total


def _fraction(a: Array, x: Array) -> Array:
    """Q, for x > a, by the modified Lentz method."""
    b = x + 1 - a
    c = np.full_like(x, 1e300)
    d = 1 / b
    value = d.copy()
    for n in range(1, _STEPS):
        step = -n * (n - a)
        b = b + 2
        d, c = step * d + b, b + step / c
        d = 1 / np.where(d == 0, 1e-300, d)
        c = np.where(c == 0, 1e-300, c)
        change = c * d
        value *= change
        if not np.any(np.abs(change - 1) > 2 * _EPS):
            break
    return _factor(a, x) * value


# log(gamma(1 + a)) in powers of a, highest first
_AROUND_1 = (*[(-1) ** k * (zeta_less_1(k) + 1) / k for k in range(40, 1, -1)], -0.57721566490153286061)


def _little(a: Array, x: Array) -> Array:
    """Q, for x <= 1.1 and a so small that P is almost 1: the series of P, of which 1 is taken off in its first term."""
    log_gamma = np.zeros_like(a)
    for c in _AROUND_1:
        log_gamma = (log_gamma + c) * np.minimum(a, 0.4)
    usual = np.vectorize(math.lgamma, otypes=[np.float64])(1 + a) if a.size else a
    power = a * np.log(x) - np.where(a <= 0.4, log_gamma, usual)
    term, total = np.ones_like(x), np.zeros_like(x)
    for n in range(1, 60):
        term = term * -x / n
        total += term / (a + n)
    return -np.expm1(power) - a * np.exp(power) * total


def _uniform(a: Array, x: Array, upper: bool) -> Array:
    """P or Q by Temme's expansion."""
    mu = (x - a) / a
    gap = _gap(mu)
    eta = np.copysign(np.sqrt(2 * gap), mu)
    sign = 1.0 if upper else -1.0
    erfc = np.vectorize(math.erfc, otypes=[np.float64])(sign * np.sqrt(a * gap) * np.sign(mu))
    c0, c1 = (sum(c * eta**k for k, c in enumerate(row)) for row in _TEMME)
    return erfc / 2 + sign * np.exp(-a * gap) / np.sqrt(2 * math.pi * a) * (c0 + c1 / a)


def _on(where: Array, function: Callable[..., Array], out: Array, *args: Any) -> None:
    if np.any(where):
        out[where] = function(*[v[where] if isinstance(v, np.ndarray) else v for v in args])


def _both(a: Array, x: Array, upper: bool) -> Array:
    """P or Q of float64 arrays of one shape."""
    a, x = np.broadcast_arrays(a, x)
    out = np.full(a.shape, math.nan)
    with np.errstate(all="ignore"):
        usual = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
        is_huge = usual & (a > _HUGE)
        is_low = usual & ~is_huge & ((x <= a) | (x <= 0.5))
        is_high = usual & ~is_huge & ~is_low
        _on(is_huge, _uniform, out, a, x, upper)
        is_little = usual & (x <= 1.1) & (a <= np.where(x <= 0.5, -0.4 / np.log(x), 1.1 * x)) & ~is_huge
        if upper:
            is_low, is_high = is_low & ~is_little, is_high & ~is_little
            _on(is_little, _little, out, a, x)
        _on(is_low, _series, out, a, x)
        _on(is_high, _fraction, out, a, x)
        turned = is_low if upper else is_high
        out[turned] = 1 - out[turned]
        out[(a > 0) & (x == 0)] = 1.0 if upper else 0.0
        out[(a == 0) & (x > 0)] = 0.0 if upper else 1.0
        out[np.isfinite(a) & (a > 0) & (x == math.inf)] = 0.0 if upper else 1.0
        out[(a == math.inf) & (x >= 0) & np.isfinite(x)] = 1.0 if upper else 0.0
    return out


def _define(name: str, doc: str, upper: bool, sign: float) -> None:
    def kernel(a: Array, x: Array) -> Array:
        target = rule.promoted((type_of(a), type_of(x))).numpy
        return np.asarray(_both(a.astype(np.float64), x.astype(np.float64), upper), target)

    def by_other(g: Any, self: Any, other: Any) -> Any:
        a, x = (aten.to.dtype(v, dt.float64) for v in (self, other))  # three large terms nearly cancel each other
        return g * aten.type_as(aten.exp((a - 1) * aten.log(x) - x - aten.lgamma(a)), g) * sign

    for shown in (name, f"special_gammainc{'c' if upper else ''}"):
        schema = parse_schema(f"aten::{shown}(Tensor self, Tensor other) -> Tensor")
        rule = Pointwise(schema, accepts=_is_floating, wants="floating point numbers")
        is_first = shown == name
        define(
            schema, doc, type=rule, kernel=kernel, vjp={"other": by_other}, inplace=is_first, out=True,
            public=("weft", "Tensor") if is_first else ("special",),
            node="" if is_first else f"{name.capitalize()}Backward0.special",
            samples=draw(case(P(3, 4), P(4)), case(P(3), P(3))), reference=_upper_sum if upper else _sum,
        )


def _is_floating(d: DType) -> bool:
    return d.is_floating_point


def _sum(a: Any, x: Any) -> Any:
    """An oracle: x^a e^-x times the sum of x^n / gamma(a + n + 1)."""
    def value(a: float, x: float) -> float:
        terms = [math.exp((a + n) * math.log(x) - x - math.lgamma(a + n + 1)) for n in range(400)] if x > 0 else [0.0]
        return math.fsum(terms)

    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    return np.vectorize(value, otypes=[np.float64])(a, x) if a.size else np.zeros(a.shape)


def _upper_sum(a: Any, x: Any) -> Any:
    return 1 - _sum(a, x)


_define(
    "igamma", "The regularized lower incomplete gamma function P(self, other). Its gradient is that by `other`.", False,
    1.0,
)
_define(
    "igammac", "The regularized upper incomplete gamma function Q(self, other). Its gradient is that by `other`.", True,
    -1.0,
)
