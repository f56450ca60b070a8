"""Sine, cosine and tangent, and their inverses."""

from __future__ import annotations

import math

from weft.codegen.emit import Value, const
from weft.codegen.math import tables
from weft.codegen.math.core import FloatMath

# pi/2 as a sum. With fma each part is a full number; without, the first parts are short enough for exact products.
_HALF_PI = {
    32: (1.57079637050628662109375, -4.37113900018624283e-08, -1.71512489e-15),
    64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}
_HALF_PI_SHORT = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
# Beyond this many radians the C library's own reduction is used.
REDUCTION_LIMIT = {32: 1.0e5, 64: 1.0e6}
# pi/2 as a number and what it lacks
_RIGHT_ANGLE = {
    32: (1.57079637050628662109375, -4.37113900018624283e-08),
    64: (1.5707963267948966, 6.123233995736766e-17),
}


def reduce_angle(m: FloatMath, x: Value) -> tuple[Value, Value]:
    """(r, q) with x = r + q*pi/2, |r| <= pi/4, q an integer, for |x| up to REDUCTION_LIMIT."""
    n, q = m.nearest(x, 2 / math.pi)
    if m.has_fma:
        return _subtract(m, x, n, _HALF_PI[x.type.bits]), q
    if x.type.bits == 64:
        return _subtract(m, x, n, _HALF_PI_SHORT), q
    return m.narrow(_subtract(m, m.widen(x), m.widen(n), _HALF_PI_SHORT)), q


def _subtract(m: FloatMath, x: Value, n: Value, parts: tuple[float, ...]) -> Value:
    for part in parts:
        x = m.mad(n, -part, x)
    return x


def _sine(m: FloatMath, r: Value) -> Value:
    square = m.mul(r, r)
    return m.mad(m.mul(square, r), m.poly(square, tables.SIN), r)


def _cosine(m: FloatMath, r: Value) -> Value:
    square = m.mul(r, r)
    half = m.mul(square, 0.5)
    top = m.sub(1.0, half)
    lost = m.sub(m.sub(1.0, top), half)
    return m.add(top, m.mad(m.mul(square, square), m.poly(square, tables.COS), lost))


def _is_odd(m: FloatMath, q: Value) -> Value:
    return m.f.icmp("ne", m.f.and_(q, 1), 0)


def _flipped(m: FloatMath, a: Value, q: Value) -> Value:
    """a, negated where q has its second bit set."""
    sign = m.f.shl(m.f.and_(q, 2), q.type.bits - 2)
    return m.from_bits(m.f.xor(m.bits(a), sign))


def _is_far(m: FloatMath, x: Value) -> Value:
    return m.greater(m.abs(x), REDUCTION_LIMIT[x.type.bits])


def sin(m: FloatMath, x: Value) -> Value:
    """Sine of x radians."""
    r, q = reduce_angle(m, x)
    near = _flipped(m, m.select(_is_odd(m, q), _cosine(m, r), _sine(m, r)), q)
    near = m.select(m.equal(x, 0.0), x, near)
    return m.rare(_is_far(m, x), near, "sin", x)


def cos(m: FloatMath, x: Value) -> Value:
    """Cosine of x radians."""
    r, q = reduce_angle(m, x)
    near = _flipped(m, m.select(_is_odd(m, q), _sine(m, r), _cosine(m, r)), m.f.add(q, m.f.and_(q, 1)))
    return m.rare(_is_far(m, x), near, "cos", x)


def near_zero(m: FloatMath, r: Value) -> tuple[Value, Value]:
    """Cosine and sine of |r| <= pi/4."""
    return _cosine(m, r), _sine(m, r)


def tan(m: FloatMath, x: Value) -> Value:
    """Tangent of x radians."""
    r, q = reduce_angle(m, x)
    s, c, odd = _sine(m, r), _cosine(m, r), _is_odd(m, q)
    near = m.div(m.select(odd, m.neg(c), s), m.select(odd, s, c))
    near = m.select(m.equal(x, 0.0), x, near)
    return m.rare(_is_far(m, x), near, "tan", x)


def _atan_unit(m: FloatMath, t: Value) -> Value:
    """atan(t) for 0 <= t <= 1."""
    square = m.mul(t, t)
    return m.mad(m.mul(square, t), m.poly(square, tables.ATAN), t)


def _from(m: FloatMath, multiple: int, angle: Value) -> Value:
    """multiple * pi/2 - angle."""
    high, low = _RIGHT_ANGLE[angle.type.bits]
    return m.sub(high * multiple, m.sub(angle, low * multiple))


def atan(m: FloatMath, x: Value) -> Value:
    """Arc tangent."""
    a = m.abs(x)
    large = m.greater(a, 1.0)
    angle = _atan_unit(m, m.div(m.select(large, 1.0, a), m.select(large, a, 1.0)))
    return m.copysign(m.select(large, _from(m, 1, angle), angle), x)


def atan2(m: FloatMath, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in [-pi, pi]; the signs of zeros count as in C."""
    ay, ax = m.abs(y), m.abs(x)
    steep = m.greater(ay, ax)
    small, large = m.select(steep, ax, ay), m.select(steep, ay, ax)
    t = m.div(small, large)
    # 0/0 and inf/inf; with a NaN on one side the other may still be 0 or infinite, hence the comparison
    alike = m.equal(small, large)
    t = m.select(alike, m.select(m.equal(large, 0.0), const(t.type, 0.0), 1.0), t)
    angle = _atan_unit(m, t)
    left = m.f.icmp("slt", m.bits(x), 0)
    # steep: from pi/2 to either side, since what is subtracted from pi is rounded twice
    flat = m.select(left, _from(m, 2, angle), angle)
    return m.copysign(m.select(steep, _from(m, 1, m.copysign(angle, x)), flat), y)


def _asin_parts(m: FloatMath, a: Value) -> tuple[Value, Value]:
    """(is_large, p): p = asin(a) for a <= 1/2, else asin(sqrt((1-a)/2)), from which asin(a) = pi/2 - 2p."""
    large = m.greater(a, 0.5)
    square = m.select(large, m.mul(m.sub(1.0, a), 0.5), m.mul(a, a))
    base = m.select(large, m.sqrt(square), a)
    return large, m.mad(m.mul(square, base), m.poly(square, tables.ASIN), base)


def asin(m: FloatMath, x: Value) -> Value:
    """Arc sine; NaN beyond [-1, 1]."""
    large, p = _asin_parts(m, m.abs(x))
    return m.copysign(m.select(large, _from(m, 1, m.mul(p, 2.0)), p), x)


def acos(m: FloatMath, x: Value) -> Value:
    """Arc cosine; NaN beyond [-1, 1]."""
    large, p = _asin_parts(m, m.abs(x))
    twice = m.mul(p, 2.0)
    far = m.select(m.less(x, 0.0), _from(m, 2, twice), twice)
    return m.select(large, far, _from(m, 1, m.copysign(p, x)))
