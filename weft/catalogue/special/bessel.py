"""Modified Bessel functions of the first kind, of orders 0 and 1, plain and scaled by exp(-|x|): i0, i1, i0e, i1e."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.ops.packet import aten

# the power series up to 20, the asymptotic one from there on: 1e-15 both
_LIMIT, _NEAR_TERMS, _FAR_TERMS = 20.0, 40, 30


def _series(s: Any, x: Any, order: int) -> Any:
    """(x/2)**order times the sum of (x/2)**2k / (k! (k + order)!): all terms are positive."""
    dtype = s.dtype(x)
    half = s.mul(x, s.const(0.5, dtype))
    square = s.mul(half, half)
    total = s.const(1.0, dtype)
    for k in range(_NEAR_TERMS, 0, -1):
        total = s.add(s.const(1.0, dtype), s.mul(s.mul(total, square), s.const(1.0 / (k * (k + order)), dtype)))
    return s.mul(half, total) if order else total


def _asymptotic(s: Any, x: Any, order: int) -> Any:
    """I(x) exp(-x) = 1/sqrt(2 pi x) times a series in 1/x."""
    dtype = s.dtype(x)
    over = s.div(s.const(1.0, dtype), x)
    total = s.const(1.0, dtype)
    for k in range(_FAR_TERMS, 0, -1):
        total = s.add(
            s.const(1.0, dtype), s.mul(s.mul(total, over), s.const(((2 * k - 1) ** 2 - 4 * order) / (8.0 * k), dtype))
        )
    return s.mul(total, s.sqrt(s.mul(over, s.const(1 / (2 * math.pi), dtype))))


def _scaled(s: Any, x: Any, order: int) -> Any:
    dtype = s.dtype(x)
    limit = s.const(_LIMIT, dtype)
    size = s.abs(x)
    near = s.mul(_series(s, s.minimum(size, limit), order), s.exp(s.neg(s.minimum(size, limit))))
    out = s.where(s.lt(size, limit), near, _asymptotic(s, s.maximum(size, limit), order))
    return s.where(s.lt(x, s.const(0.0, dtype)), s.neg(out), out) if order else out


def plain_value(s: Any, x: Any, order: int) -> Any:
    """The scaled function times exp(|x|), in two factors so that the product does not overflow early."""
    dtype = s.dtype(x)
    size = s.abs(x)
    grown = s.exp(s.mul(size, s.const(0.5, dtype)))
    out = s.mul(s.mul(_scaled(s, x, order), grown), grown)
    infinite = s.eq(size, s.const(math.inf, dtype))
    return s.where(infinite, s.mul(x, x) if order == 0 else x, out)


_SMALL = 1e-3  # up to here four terms of the series of the slope are exact


def _slope_at_0(x: Any) -> Any:
    """The slope of i1 near 0: a quotient of it by x has no digits left where they are subnormal."""
    square = x * x
    return ((square * (7 / 18432) + 5 / 384) * square + 3 / 16) * square + 0.5


def _slope_of_i1(g: Any, self: Any, result: Any) -> Any:
    is_small = aten.abs(self) < _SMALL
    away = aten.special_i0(self) - result / aten.where(is_small, 1, self)
    return g * aten.where(is_small, _slope_at_0(aten.where(is_small, self, 0)), away)


def _slope_of_i1e(g: Any, self: Any, result: Any) -> Any:
    size = aten.abs(self)
    is_small = size < _SMALL
    near = _slope_at_0(aten.where(is_small, self, 0)) * aten.exp(-size)
    away = aten.special_i0e(self) - result / aten.where(is_small, 1, self)
    return g * (aten.where(is_small, near, away) - aten.sgn(self) * result)


def bessel_oracle(order: int, is_scaled: bool) -> Any:
    """The integral of exp(x cos t) cos(order t) / pi over [0, pi], by the trapezoidal rule, which is exact for
    periodic functions."""
    t = np.linspace(0, math.pi, 401)
    weight = np.full(401, 1 / 400)
    weight[[0, -1]] /= 2

    def reference(x: Any) -> Any:
        x = np.asarray(x)[..., None]
        return (np.exp(x * np.cos(t) - (np.abs(x) if is_scaled else 0)) * np.cos(order * t) * weight).sum(-1)

    return reference


for _name, _order, _body, _vjp in (
    ("i0", 0, plain_value, lambda g, self: g * aten.special_i1(self)),
    ("i1", 1, plain_value, _slope_of_i1),
    ("i0e", 0, _scaled, lambda g, self, result: g * (aten.special_i1e(self) - aten.sgn(self) * result)),
    ("i1e", 1, _scaled, _slope_of_i1e),
):
    pointwise(
        f"aten::special_{_name}(Tensor self) -> Tensor",
        f"The modified Bessel function of the first kind of order {_order}"
        + (", times exp(-|x|)." if _name.endswith("e") else "."),
        scalar=lambda s, x, body=_body, order=_order: body(s, x, order),
        compute="real_float",
        vjp={"self": _vjp},
        public=("special",),
        inplace=False,
        reference=bessel_oracle(_order, _name.endswith("e")),
    )
pointwise(
    "aten::i0(Tensor self) -> Tensor", "The modified Bessel function of the first kind of order 0.",
    scalar=lambda s, x: plain_value(s, x, 0), compute="real_float",
    vjp={"self": lambda g, self: g * aten.special_i1(self)}, reference=bessel_oracle(0, False),
)
