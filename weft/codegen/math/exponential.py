"""exp and what is built on it: exp2, expm1, sigmoid, tanh, sinh, cosh."""

from __future__ import annotations

import math

from weft.codegen.emit import Value
from weft.codegen.math import tables
from weft.codegen.math.core import FloatMath

# ln(2) in two parts; the first has enough trailing zeros that its product with any exponent is exact.
LN2 = {32: (0.693359375, -2.12194440e-4), 64: (6.93147180369123816490e-01, 1.90821492927058770002e-10)}
# Beyond these, exp is surely infinite or zero; they keep the exponent in range for FloatMath.scale.
EXP_RANGE = {32: (-104.0, 90.0), 64: (-746.0, 711.0)}


def exp_parts(m: FloatMath, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """(e, i) with exp(x + low) = (1 + e) * 2**i and |e| < 0.42; x within EXP_RANGE, `low` a small correction of x."""
    high_ln2, low_ln2 = LN2[x.type.bits]
    n, i = m.nearest(x, 1 / math.log(2))
    r = m.mad(n, -low_ln2, m.mad(n, -high_ln2, x))
    if low is not None:
        r = m.add(r, low)
    return m.mad(m.mul(r, r), m.poly(r, tables.EXP), r), i


def clamped(m: FloatMath, x: Value) -> Value:
    """x within EXP_RANGE."""
    low, high = EXP_RANGE[x.type.bits]
    return m.at_least(m.at_most(x, high), low)


def exp(m: FloatMath, x: Value) -> Value:
    """e**x."""
    e, i = exp_parts(m, clamped(m, x))
    return m.scale(m.add(e, 1.0), i)


def exp_sum(m: FloatMath, x: Value, low: Value) -> Value:
    """e**(x + low), where `low` is what rounding lost of x."""
    e, i = exp_parts(m, clamped(m, x), low)
    return m.scale(m.add(e, 1.0), i)


def half_exp(m: FloatMath, x: Value) -> Value:
    """e**x / 2, which is finite a little longer than e**x."""
    e, i = exp_parts(m, clamped(m, x))
    return m.scale(m.add(e, 1.0), m.f.sub(i, 1))


def exp2(m: FloatMath, x: Value) -> Value:
    """2**x; exact for integers."""
    low, high = (-151.0, 129.0) if x.type.bits == 32 else (-1076.0, 1025.0)
    x = m.at_least(m.at_most(x, high), low)
    n, i = m.nearest(x)
    r = m.sub(x, n)
    return m.scale(m.mad(r, m.poly(r, tables.EXP2), 1.0), i)


def expm1(m: FloatMath, x: Value) -> Value:
    """e**x - 1, accurate near 0."""
    narrow = x.type.bits == 32
    inside = m.at_least(m.at_most(x, EXP_RANGE[x.type.bits][1]), -60.0 if narrow else -100.0)
    e, i = exp_parts(m, inside)
    # Half the result first: 2**i itself would overflow a little before the result does.
    half = m.power_of_two(m.f.smin(m.f.sub(i, 1), 127 if narrow else 1023))
    doubled = m.mul(m.mad(half, e, m.sub(half, 0.5)), 2.0)
    doubled = m.select(m.greater(x, 89.0 if narrow else 710.0), math.inf, doubled)
    tiny = m.less(m.abs(x), 2.0**-25 if narrow else 2.0**-54)
    return m.select(tiny, x, doubled)


def sigmoid(m: FloatMath, x: Value) -> Value:
    """1 / (1 + e**-x), with relative accuracy in both tails."""
    decay = exp(m, m.neg(m.abs(x)))
    return m.div(m.select(m.less(x, 0.0), decay, 1.0), m.add(decay, 1.0))


def tanh(m: FloatMath, x: Value) -> Value:
    """Hyperbolic tangent."""
    a = m.abs(x)
    if x.type.bits == 64:
        t = expm1(m, m.mul(a, -2.0))
        return m.copysign(m.div(t, m.add(t, 2.0)), x)
    a = m.at_most(a, 9.5)
    e, i = exp_parts(m, m.mul(a, 2.0))
    grown = m.mul(m.add(e, 1.0), m.power_of_two(i))
    large = m.sub(1.0, m.div(2.0, m.add(grown, 1.0)))
    square = m.mul(a, a)
    small = m.mad(m.mul(square, a), m.poly(square, tables.TANH), a)
    return m.copysign(m.select(m.less(a, 0.55), small, large), x)


def sinh(m: FloatMath, x: Value) -> Value:
    """Hyperbolic sine."""
    a = m.abs(x)
    h = half_exp(m, a)
    large = m.sub(h, m.div(0.25, h))
    square = m.mul(a, a)
    small = m.mad(m.mul(square, a), m.poly(square, tables.SINH), a)
    return m.copysign(m.select(m.less(a, 1.0), small, large), x)


def cosh(m: FloatMath, x: Value) -> Value:
    """Hyperbolic cosine."""
    h = half_exp(m, m.abs(x))
    return m.add(h, m.div(0.25, h))
