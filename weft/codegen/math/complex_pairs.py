"""Complex arithmetic and functions over pairs of real values (real part, imaginary part)."""

from __future__ import annotations

from weft.codegen.emit import Value, const
from weft.codegen.math import exponential, logarithm, rounding, trigonometry
from weft.codegen.math.core import FloatMath

Pair = tuple[Value, Value]


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
    ratio = m.select(m.equal(large, 0.0), 0.0, ratio)
    scale = m.div(1.0, m.add(large, m.mul(small, ratio)))
    a, b = m.select(flat, x[0], x[1]), m.select(flat, x[1], x[0])
    real = m.mul(m.add(a, m.mul(b, ratio)), scale)
    imaginary = m.mul(m.sub(b, m.mul(a, ratio)), scale)
    return real, m.select(flat, imaginary, m.neg(imaginary))


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
    """e**x."""
    size = exponential.exp(m, x[0])
    real = m.mul(size, trigonometry.cos(m, x[1]))
    straight = m.equal(x[1], 0.0)
    return m.select(straight, size, real), m.select(straight, x[1], m.mul(size, trigonometry.sin(m, x[1])))


def log(m: FloatMath, x: Pair) -> Pair:
    """The principal logarithm. Near modulus 1 its real part is log1p of |x|**2 - 1."""
    size = absolute(m, x)
    ax, ay = m.abs(x[0]), m.abs(x[1])
    steep = m.greater(ay, ax)
    large, small = m.select(steep, ay, ax), m.select(steep, ax, ay)
    excess = m.mad(m.sub(large, 1.0), m.add(large, 1.0), m.mul(small, small))
    near = m.f.and_(m.greater(size, 0.5), m.less(size, 2.0))
    real = m.select(near, m.mul(logarithm.log1p(m, excess), 0.5), logarithm.log(m, size))
    return real, angle(m, x)


def sqrt(m: FloatMath, x: Pair) -> Pair:
    """The root with a real part that is not negative."""
    size = absolute(m, x)
    # (|a| + |x|) / 2, halved before the sum against overflow
    major = m.sqrt(m.add(m.mul(m.abs(x[0]), 0.5), m.mul(size, 0.5)))
    zero = m.equal(major, 0.0)
    minor = m.select(zero, 0.0, m.div(m.mul(m.abs(x[1]), 0.5), m.select(zero, 1.0, major)))
    left = m.less(x[0], 0.0)
    real, imaginary = m.select(left, minor, major), m.select(left, major, minor)
    return real, m.copysign(imaginary, x[1])


def pow(m: FloatMath, x: Pair, y: Pair) -> Pair:
    """exp(y * log(x)); 1 for exponent 0, and 0 for a base 0 with an exponent of positive real part. What is x itself, a
    product or a reciprocal for exponents 1, 2, 3 and -1 is computed so: the powers of real and imaginary numbers are
    exactly such.
    """
    exponent = y[0].const if y[1].const == 0 else None
    if exponent == 1:
        return x
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
    inverts = f.and_(inverts, f.and_(_is_finite(m, x), m.greater(m.add(m.abs(x[0]), m.abs(x[1])), 0.0)))
    inverse = div(m, (const(x[0].type, 1.0), const(x[0].type, 0.0)), x)
    return (
        m.select(is_base, x[0], m.select(inverts, inverse[0], real)),
        m.select(is_base, x[1], m.select(inverts, inverse[1], imaginary)),
    )


def _is_finite(m: FloatMath, x: Pair) -> Value:
    limit = float("inf")
    return m.f.and_(m.less(m.abs(x[0]), limit), m.less(m.abs(x[1]), limit))


def sinh(m: FloatMath, x: Pair) -> Pair:
    """Hyperbolic sine."""
    return (
        m.mul(exponential.sinh(m, x[0]), trigonometry.cos(m, x[1])),
        m.mul(exponential.cosh(m, x[0]), trigonometry.sin(m, x[1])),
    )


def cosh(m: FloatMath, x: Pair) -> Pair:
    """Hyperbolic cosine."""
    return (
        m.mul(exponential.cosh(m, x[0]), trigonometry.cos(m, x[1])),
        m.mul(exponential.sinh(m, x[0]), trigonometry.sin(m, x[1])),
    )


def tanh(m: FloatMath, x: Pair) -> Pair:
    """Hyperbolic tangent, divided through by cosh**2 of the real part so that it cannot overflow."""
    t = exponential.tanh(m, x[0])
    s, c = trigonometry.sin(m, x[1]), trigonometry.cos(m, x[1])
    decay = m.div(1.0, exponential.cosh(m, x[0]))
    below = m.add(m.mul(c, c), m.mul(m.mul(t, t), m.mul(s, s)))
    return m.div(t, below), m.div(m.mul(m.mul(s, c), m.mul(decay, decay)), below)


def turned(m: FloatMath, x: Pair) -> Pair:
    """i * x."""
    return m.neg(x[1]), x[0]


def unturned(m: FloatMath, x: Pair) -> Pair:
    """-i * x."""
    return x[1], m.neg(x[0])
