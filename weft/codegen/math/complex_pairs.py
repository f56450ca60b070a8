"""Complex arithmetic and functions over pairs of real values (real part, imaginary part)."""

from __future__ import annotations

import math

from weft.codegen.emit import Value, const
from weft.codegen.math import exponential, logarithm, rounding, trigonometry
from weft.codegen.math.core import FloatMath

Pair = tuple[Value, Value]

_INF = math.inf


def mul(m: FloatMath, x: Pair, y: Pair) -> Pair:
    """The product, as (ac - bd, ad + bc), each operation rounded."""
    real = m.sub(m.mul(x[0], y[0]), m.mul(x[1], y[1]))
    return real, m.add(m.mul(x[0], y[1]), m.mul(x[1], y[0]))


def div(m: FloatMath, x: Pair, y: Pair) -> Pair:
    """The quotient by Smith's method, which scales by the larger part of y."""
    flat = m.f.fcmp("oge", m.abs(y[0]), m.abs(y[1]))
    large, small = m.select(flat, y[0], y[1]), m.select(flat, y[1], y[0])
    ratio = m.div(small, large)
    # by zero: the ratio is 0/0, and C gives signed infinities, not NaN
    by_zero = m.equal(large, 0.0)
    ratio = m.select(by_zero, 0.0, ratio)
    divisor = m.add(large, m.mul(small, ratio))
    scale = m.div(1.0, m.select(by_zero, m.abs(divisor), divisor))  # a zero's sign does not count, as in NumPy
    a, b = m.select(flat, x[0], x[1]), m.select(flat, x[1], x[0])
    real = m.mul(m.add(a, m.mul(b, ratio)), scale)
    imaginary = m.mul(m.sub(b, m.mul(a, ratio)), scale)
    imaginary = m.select(flat, imaginary, m.neg(imaginary))
    return m.select(by_zero, m.mul(x[0], scale), real), m.select(by_zero, m.mul(x[1], scale), imaginary)


def absolute(m: FloatMath, x: Pair) -> Value:
    """The modulus."""
    return rounding.hypot(m, *x)


def angle(m: FloatMath, x: Pair) -> Value:
    """The argument, in [-pi, pi]."""
    return trigonometry.atan2(m, x[1], x[0])


def sign(m: FloatMath, x: Pair) -> Pair:
    """x / |x|; 0 for 0."""
    size = absolute(m, x)
    zero = m.equal(size, 0.0)
    size = m.select(zero, 1.0, size)
    return m.div(x[0], size), m.div(x[1], size)


def exp(m: FloatMath, x: Pair) -> Pair:
    """e**x. Where e**(real part) alone overflows, its last factor comes after the turn."""
    is_long, rest, factor = _cut(m, x[0])
    size = exponential.exp(m, m.select(is_long, rest, x[0]))
    after = m.select(is_long, const(size.type, factor), 1.0)
    cosine, sine = trigonometry.cos(m, x[1]), trigonometry.sin(m, x[1])
    whole, straight, lost = m.mul(size, after), m.equal(x[1], 0.0), m.f.not_(_is_finite(m, x[1]))
    real = m.select(straight, whole, m.mul(m.mul(size, cosine), after))
    imaginary = m.select(straight, x[1], m.mul(m.mul(size, sine), after))
    # e**-inf is 0 and e**inf infinite whatever the angle
    real = m.select(m.f.and_(lost, m.equal(m.abs(x[0]), _INF)), whole, real)
    return real, m.select(m.f.and_(lost, m.equal(x[0], -_INF)), m.copysign(0.0, x[1]), imaginary)


def log(m: FloatMath, x: Pair) -> Pair:
    """The principal logarithm. Near modulus 1 its real part is log1p of |x|**2 - 1."""
    near_one, shift = _in_range(m, x)
    size = absolute(m, near_one)
    ax, ay = m.abs(x[0]), m.abs(x[1])
    steep = m.greater(ay, ax)
    large, small = m.select(steep, ay, ax), m.select(steep, ax, ay)
    excess = m.mad(m.sub(large, 1.0), m.add(large, 1.0), m.mul(small, small))
    near = m.f.and_(m.greater(size, 0.5), m.less(size, 2.0))
    near = m.f.and_(near, m.equal(shift, 0.0))
    far = m.sub(logarithm.log(m, size), m.mul(shift, math.log(2)))
    return m.select(near, m.mul(logarithm.log1p(m, excess), 0.5), far), angle(m, x)


def sqrt(m: FloatMath, x: Pair) -> Pair:
    """The root with a real part that is not negative."""
    x_is_tall = m.equal(m.abs(x[1]), _INF)
    scaled, shift = _in_range(m, x)
    back = m.select(m.equal(shift, 0.0), 1.0, exponential.exp2(m, m.mul(shift, -0.5)))
    size = absolute(m, scaled)
    # (|a| + |x|) / 2, halved before the sum against overflow
    major = m.sqrt(m.add(m.mul(m.abs(scaled[0]), 0.5), m.mul(size, 0.5)))
    zero = m.equal(major, 0.0)
    minor = m.select(zero, 0.0, m.div(m.mul(m.abs(scaled[1]), 0.5), m.select(zero, 1.0, major)))
    major, minor = m.mul(major, back), m.mul(minor, back)
    left = m.less(x[0], 0.0)
    real, imaginary = m.select(left, minor, major), m.select(left, major, minor)
    return m.select(x_is_tall, _INF, real), m.copysign(m.select(x_is_tall, _INF, imaginary), x[1])


def _in_range(m: FloatMath, x: Pair) -> tuple[Pair, Value]:
    """x times 2**shift, so that nothing overflows or is lost where its modulus is computed, and the shift."""
    ax, ay = m.abs(x[0]), m.abs(x[1])
    large = m.select(m.greater(ay, ax), ay, ax)
    most, least, up = (2.0**1020, 2.0**-960, 108) if x[0].type.bits == 64 else (2.0**124, 2.0**-90, 50)
    is_huge = m.f.and_(m.greater(large, most), m.less(large, _INF))
    is_tiny = m.f.and_(m.less(large, least), m.greater(large, 0.0))
    factor = m.select(is_huge, const(ax.type, 0.0625), m.select(is_tiny, const(ax.type, 2.0**up), 1.0))
    shift = m.select(is_huge, const(ax.type, -4.0), m.select(is_tiny, const(ax.type, float(up)), 0.0))
    return (m.mul(x[0], factor), m.mul(x[1], factor)), shift


def _cut(m: FloatMath, x: Value) -> tuple[Value, Value, float]:
    """Whether e**x is near or beyond the largest number, x less a constant, and e to that constant."""
    part = 700.0 if x.type.bits == 64 else 86.0
    return m.greater(x, part), m.sub(x, part), math.exp(part)


def pow(m: FloatMath, x: Pair, y: Pair) -> Pair:
    """exp(y * log(x)); 1 for exponent 0, and 0 for a base 0 with an exponent of positive real part. What is x itself, a
    product, a root or a reciprocal for exponents 1, 2, 3, 0.5 and -1 is computed so: the powers of real and imaginary
    numbers are exactly such, and a root of an infinity is one.
    """
    exponent = y[0].const if y[1].const == 0 else None
    if exponent == 1:
        return x
    if exponent == 0.5:
        return sqrt(m, x)
    if exponent in (2, 3):
        square = mul(m, x, x)
        return square if exponent == 2 else mul(m, x, square)
    f = m.f
    power = exp(m, mul(m, y, log(m, x)))
    vanishes = f.and_(f.and_(m.equal(x[0], 0.0), m.equal(x[1], 0.0)), m.greater(y[0], 0.0))
    unit = f.and_(m.equal(y[0], 0.0), m.equal(y[1], 0.0))
    real = m.select(unit, 1.0, m.select(vanishes, 0.0, power[0]))
    imaginary = m.select(f.or_(unit, vanishes), 0.0, power[1])
    if y[0].const not in (None, -1):
        return real, imaginary
    whole = m.equal(y[1], 0.0)
    is_base, inverts = f.and_(whole, m.equal(y[0], 1.0)), f.and_(whole, m.equal(y[0], -1.0))
    finite = f.and_(_is_finite(m, x[0]), _is_finite(m, x[1]))
    inverts = f.and_(inverts, f.and_(finite, m.greater(m.add(m.abs(x[0]), m.abs(x[1])), 0.0)))
    inverse = div(m, (const(x[0].type, 1.0), const(x[0].type, 0.0)), x)
    return (
        m.select(is_base, x[0], m.select(inverts, inverse[0], real)),
        m.select(is_base, x[1], m.select(inverts, inverse[1], imaginary)),
    )


def _is_finite(m: FloatMath, x: Value) -> Value:
    return m.less(m.abs(x), _INF)


def _hyperbolic(m: FloatMath, x: Value) -> tuple[Value, Value, Value]:
    """sinh and cosh without their last factor, and the factor: 1 where neither overflows."""
    is_long, rest, factor = _cut(m, m.abs(x))
    half = m.mul(exponential.exp(m, m.select(is_long, rest, 0.0)), 0.5)
    short = m.select(is_long, 0.0, x)
    sine = m.select(is_long, m.copysign(half, x), exponential.sinh(m, short))
    return sine, m.select(is_long, half, exponential.cosh(m, short)), m.select(is_long, const(x.type, factor), 1.0)


def sinh(m: FloatMath, x: Pair) -> Pair:
    """Hyperbolic sine."""
    sine, cosine, factor = _hyperbolic(m, x[0])
    straight, lost = m.equal(x[1], 0.0), m.f.not_(_is_finite(m, x[1]))
    real = m.mul(m.mul(sine, trigonometry.cos(m, x[1])), factor)
    imaginary = m.mul(m.mul(cosine, trigonometry.sin(m, x[1])), factor)
    # no angle changes 0; of an infinity the sign is not known, and C libraries give a positive one
    real = m.select(m.f.and_(lost, m.equal(x[0], 0.0)), x[0], real)
    real = m.select(m.f.and_(lost, m.equal(m.abs(x[0]), _INF)), _INF, real)
    return m.select(straight, m.mul(sine, factor), real), m.select(straight, x[1], imaginary)


def cosh(m: FloatMath, x: Pair) -> Pair:
    """Hyperbolic cosine."""
    sine, cosine, factor = _hyperbolic(m, x[0])
    straight, lost = m.equal(x[1], 0.0), m.f.not_(_is_finite(m, x[1]))
    real = m.mul(m.mul(cosine, trigonometry.cos(m, x[1])), factor)
    imaginary = m.mul(m.mul(sine, trigonometry.sin(m, x[1])), factor)
    real = m.select(m.f.and_(lost, m.equal(m.abs(x[0]), _INF)), _INF, real)
    level = m.f.or_(straight, m.f.and_(lost, m.equal(x[0], 0.0)))  # 0 with the product's sign
    zero = m.mul(m.copysign(1.0, x[0]), m.copysign(0.0, x[1]))
    return m.select(straight, m.mul(cosine, factor), real), m.select(level, zero, imaginary)


def tanh(m: FloatMath, x: Pair) -> Pair:
    """Hyperbolic tangent, divided through by cosh**2 of the real part so that it cannot overflow."""
    t = exponential.tanh(m, x[0])
    s, c = trigonometry.sin(m, x[1]), trigonometry.cos(m, x[1])
    decay = m.div(1.0, exponential.cosh(m, x[0]))
    below = m.add(m.mul(c, c), m.mul(m.mul(t, t), m.mul(s, s)))
    real, imaginary = m.div(t, below), m.div(m.mul(m.mul(s, c), m.mul(decay, decay)), below)
    straight, lost = m.equal(x[1], 0.0), m.f.not_(_is_finite(m, x[1]))
    infinite = m.equal(m.abs(x[0]), _INF)
    kept = m.f.and_(lost, m.f.or_(m.equal(x[0], 0.0), infinite))
    imaginary = m.select(m.f.and_(lost, infinite), m.copysign(0.0, x[1]), imaginary)
    return m.select(kept, t, real), m.select(straight, x[1], imaginary)


def turned(m: FloatMath, x: Pair) -> Pair:
    """i * x."""
    return m.neg(x[1]), x[0]
