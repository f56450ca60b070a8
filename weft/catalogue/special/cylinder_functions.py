"""Bessel functions of orders 0 and 1: of the first and second kind (bessel_j0, bessel_y0, ...), the modified ones
(modified_bessel_i0, modified_bessel_k0, scaled_modified_bessel_k0, ...), and spherical_bessel_j0.

Up to 5 the plain ones are quotients of polynomials in x**2, with their logarithm and the first zero of J in exact
factors; beyond, two slow factors turn with cosine and sine (Abramowitz and Stegun 9.2.5, 9.2.6). The modified ones of
the second kind are their series up to 1 (9.6.13, 9.6.11), and exp(-x) times a quotient of polynomials in 1/x beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.samples import Case
from weft.catalogue.special import bessel_tables as tables
from weft.catalogue.special.bessel import bessel_oracle, plain_value
from weft.ops.op import NOT_DIFFERENTIABLE
from weft.types import dtype as dt
from weft.types.dtype import DType

_LIMIT = 5.0  # of the tables
_TERMS = 9  # of the series up to 1: 1e-17
_EULER = 0.57721566490153286061
Array = Any


def number(s: Any, value: float) -> Any:
    """A float64 constant of a body."""
    return s.const(float(value), dt.float64)


def polynomial(s: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule, lowest coefficient first."""
    value = number(s, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = s.add(s.mul(value, x), number(s, c))
    return value


def quotient(s: Any, x: Any, name: str) -> Any:
    """The quotient of polynomials in a table."""
    return s.div(polynomial(s, x, getattr(tables, f"{name}_P")), polynomial(s, x, getattr(tables, f"{name}_Q")))


def takes_no_halves(d: DType) -> bool:
    """What PyTorch computes these of."""
    return not d.is_complex and d not in (dt.float16, dt.bfloat16)


def of_reals(
    name: str, doc: str, body: Callable[[Any, Any], Any], samples: Callable[..., Any],
    reference: Callable[[Array], Array],
) -> None:
    """An entry of weft.special whose body is computed in float64. It has no gradient, as in PyTorch."""
    pointwise(
        f"aten::special_{name}(Tensor x) -> Tensor",
        doc,
        scalar=lambda s, x: s.cast(body(s, s.cast(x, dt.float64)), s.dtype(x)),
        compute="real_float",
        accepts=takes_no_halves,
        inplace=False,
        public=("special",),
        vjp=NOT_DIFFERENTIABLE,
        samples=samples,
        reference=reference,
    )


# ---- of the first and second kind


def _near(s: Any, x: Any, order: int) -> Any:
    """J, for 0 <= x <= 5."""
    high, low = getattr(tables, f"J{order}_ZERO")
    gap = s.sub(s.sub(x, number(s, high)), number(s, low))
    value = s.mul(s.mul(gap, s.add(x, number(s, high))), quotient(s, s.mul(x, x), f"J{order}_NEAR"))
    return s.mul(value, x) if order else value


def _near_second(s: Any, x: Any, order: int) -> Any:
    """Y, for 0 < x <= 5."""
    value = quotient(s, s.mul(x, x), f"Y{order}_NEAR")
    grown = s.mul(_near(s, x, order), s.log(x))
    if order:
        value = s.mul(value, x)
        grown = s.sub(grown, s.div(number(s, 1), x))
    return s.add(value, s.mul(grown, number(s, 2 / math.pi)))


def _far(s: Any, x: Any, order: int, second: bool) -> Any:
    """J or Y, for x >= 5: sine and cosine of the angle less pi/4 (or 3 pi/4) from those of x."""
    inverse = s.div(number(s, _LIMIT), x)
    square = s.mul(inverse, inverse)
    p, q = quotient(s, square, f"TURNING{order}_COSINE"), s.div(quotient(s, square, f"TURNING{order}_SINE"), x)
    cosine, sine = s.cos(x), s.sin(x)
    # (both times the root of 2)
    turned, other = s.add(cosine, sine), s.sub(sine, cosine)
    if order:
        turned, other = other, s.neg(turned)
    value = s.add(s.mul(p, other), s.mul(q, turned)) if second else s.sub(s.mul(p, turned), s.mul(q, other))
    return s.div(value, s.sqrt(s.mul(x, number(s, math.pi))))


def _first_kind(order: int) -> Callable[[Any, Any], Any]:
    def body(s: Any, x: Any) -> Any:
        size = s.abs(x)
        near = _near(s, s.minimum(size, number(s, _LIMIT)), order)
        value = s.where(s.gt(size, number(s, _LIMIT)), _far(s, s.maximum(size, number(s, _LIMIT)), order, False), near)
        if order:
            return s.where(s.lt(x, number(s, 0)), s.neg(value), value)
        # (exactly 1 at 0)
        return s.where(s.lt(size, number(s, 1e-5)), s.sub(number(s, 1), s.mul(number(s, 0.25), s.mul(x, x))), value)

    return body


def _second_kind(order: int) -> Callable[[Any, Any], Any]:
    def body(s: Any, x: Any) -> Any:
        near = _near_second(s, s.minimum(x, number(s, _LIMIT)), order)
        value = s.where(s.gt(x, number(s, _LIMIT)), _far(s, s.maximum(x, number(s, _LIMIT)), order, True), near)
        return _of_positive(s, x, value, -math.inf)

    return body


def _of_positive(s: Any, x: Any, value: Any, at_zero: float) -> Any:
    """`value`, its limit at 0, and NaN below."""
    value = s.where(s.lt(x, number(s, 0)), number(s, math.nan), value)
    return s.where(s.eq(x, number(s, 0)), number(s, at_zero), value)


# ---- modified ones


def _harmonic(k: int) -> float:
    return math.fsum(1 / j for j in range(1, k + 1))


_I = tuple(tuple(0.25**k / (math.factorial(k) * math.factorial(k + n)) for k in range(_TERMS)) for n in (0, 1))
_K0 = tuple(0.25**k * (_harmonic(k) - _EULER) / math.factorial(k) ** 2 for k in range(_TERMS))
_K1 = tuple(
    0.25**k * (_harmonic(k) + _harmonic(k + 1) - 2 * _EULER) / (math.factorial(k) * math.factorial(k + 1))
    for k in range(_TERMS)
)


def _modified_near(s: Any, x: Any, order: int) -> Any:
    """K, for 0 < x <= 1."""
    square, half = s.mul(x, x), s.mul(x, number(s, 0.5))
    rising = s.mul(s.log(half), polynomial(s, square, _I[order]))
    if order == 0:
        return s.sub(polynomial(s, square, _K0), rising)
    rest = s.sub(rising, s.mul(number(s, 0.5), polynomial(s, square, _K1)))
    return s.add(s.div(number(s, 1), x), s.mul(half, rest))


def _modified_first_kind(order: int) -> Callable[[Any, Any], Any]:
    return lambda s, x: plain_value(s, x, order)


def _modified_second_kind(order: int, is_scaled: bool) -> Callable[[Any, Any], Any]:
    def body(s: Any, x: Any) -> Any:
        one = number(s, 1)
        low, high = s.minimum(x, one), s.maximum(x, one)
        near, inverse = _modified_near(s, low, order), s.div(one, high)
        root = s.sqrt(s.mul(inverse, number(s, math.pi / 2)))
        far = s.mul(quotient(s, inverse, f"K{order}_FAR"), root)
        if is_scaled:
            near = s.mul(near, s.exp(low))
        else:
            far = s.mul(far, s.exp(s.neg(high)))
        return _of_positive(s, x, s.where(s.gt(x, one), far, near), math.inf)

    return body


def _spherical(s: Any, x: Any) -> Any:
    """sin(x) / x; 0 at infinity."""
    is_zero = s.eq(x, number(s, 0))
    value = s.div(s.sin(x), s.where(is_zero, number(s, 1), x))
    value = s.where(is_zero, number(s, 1), value)
    return s.where(s.isinf(x), number(s, 0), value)


# ---- oracles: integrals by the trapezoidal rule, which is exact for periodic and for fast falling functions


def _samples(rng: np.random.Generator) -> list[Case]:
    return [((rng.uniform(-9, 9, (3, 4)),), {}), ((rng.uniform(5, 60, 5),), {})]


def _positive_samples(rng: np.random.Generator) -> list[Case]:
    return [((rng.uniform(0.2, 2, (3, 4)),), {}), ((rng.uniform(2, 20, 5),), {})]


def _first_integral(order: int) -> Callable[[Array], Array]:
    """The mean of cos(order t - x sin t)."""
    t = 2 * np.pi * np.arange(256) / 256
    return lambda x: np.cos(order * t - np.asarray(x)[..., None] * np.sin(t)).mean(-1)


def _falling_integral(order: int, is_scaled: bool) -> Callable[[Array], Array]:
    """The integral of exp(-x cosh t) cosh(order t) over t > 0."""
    t = np.arange(0, 8, 1 / 64)
    weight = np.where(t == 0, 0.5, 1) / 64

    def reference(x: Array) -> Array:
        x = np.asarray(x, np.float64)[..., None]
        total = (np.exp(-x * (np.cosh(t) - (1 if is_scaled else 0))) * np.cosh(order * t) * weight).sum(-1)
        return np.where(x[..., 0] == 0, math.inf, total)

    return reference


def _second_integral(order: int) -> Callable[[Array], Array]:
    """That of sin(x sin t - order t) over [0, pi], less that of exp(-x sinh t) (exp(order t) +- exp(-order t)), over
    pi, by Gauss and Legendre's rule in pieces."""
    points, weights = np.polynomial.legendre.leggauss(40)

    def pieces(high: float, count: int) -> tuple[Array, Array]:
        edges = np.linspace(0, high, count + 1)
        half = (edges[1:] - edges[:-1]) / 2
        middle = (edges[1:] + edges[:-1]) / 2
        return (middle[:, None] + half[:, None] * points).ravel(), (half[:, None] * weights).ravel()

    (t, by_t), (u, by_u) = pieces(math.pi, 8), pieces(7.0, 24)

    def reference(x: Array) -> Array:
        x = np.asarray(x, np.float64)[..., None]
        turning = (np.sin(x * np.sin(t) - order * t) * by_t).sum(-1)
        both = np.exp(order * u) + (-1) ** order * np.exp(-order * u)
        return (turning - (np.exp(-x * np.sinh(u)) * both * by_u).sum(-1)) / math.pi

    return reference


for _order in (0, 1):
    of_reals(
        f"bessel_j{_order}", f"The Bessel function of the first kind of order {_order}.", _first_kind(_order), _samples,
        _first_integral(_order),
    )
    of_reals(
        f"bessel_y{_order}", f"The Bessel function of the second kind of order {_order}; NaN for negative x.",
        _second_kind(_order), _positive_samples, _second_integral(_order),
    )
    of_reals(
        f"modified_bessel_i{_order}", f"The modified Bessel function of the first kind of order {_order}.",
        _modified_first_kind(_order), _samples, bessel_oracle(_order, False),
    )
    for _prefix, _words in (("", ""), ("scaled_", ", times exp(x)")):
        of_reals(
            f"{_prefix}modified_bessel_k{_order}",
            f"The modified Bessel function of the second kind of order {_order}{_words}; NaN for negative x.",
            _modified_second_kind(_order, bool(_prefix)), _positive_samples, _falling_integral(_order, bool(_prefix)),
        )
of_reals(
    "spherical_bessel_j0", "The spherical Bessel function of the first kind of order 0: sin(x) / x, and 1 at 0.",
    _spherical, _samples, lambda x: np.sinc(np.asarray(x) / np.pi),
)
