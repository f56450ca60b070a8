"""log and what is built on it: log2, log10, log1p, asinh, acosh, atanh, pow."""

from __future__ import annotations

import math

from weft.codegen.emit import Value, const
from weft.codegen.math import tables
from weft.codegen.math.core import FloatMath
from weft.codegen.math.exponential import LN2

# 1/sqrt(2) and the smallest normal number, as bits and as numbers
_SQRT_HALF = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_NORMAL = {32: 2.0**-126, 64: 2.0**-1022}
# beyond this, 1 + x**2 is x**2
_HUGE = {32: 2.0**30, 64: 2.0**60}
# log10(2) in two parts, the first short enough that its product with an exponent is exact
_LOG10_2 = {32: (1233 / 4096, 4.6050389811952137e-06), 64: (3.01029995663611771306e-01, 3.69423907715893078616e-13)}


def log_parts(m: FloatMath, x: Value) -> tuple[Value, Value]:
    """(k, f) with x = 2**k * (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)]; x positive, finite, not 0. k is a float."""
    digits = m.form(x)[0]
    small = m.less(x, _NORMAL[x.type.bits])
    lifted = m.select(small, m.mul(x, 2.0**digits), x)
    k, mantissa = _split(m, lifted)
    k_float = m.add(m.from_small_int(k), m.select(small, const(x.type, -float(digits)), 0.0))
    return k_float, m.sub(mantissa, 1.0)


def _split(m: FloatMath, x: Value) -> tuple[Value, Value]:
    """(k, mantissa) of a normal number, as an integer and as a float in [sqrt(1/2), sqrt(2)]."""
    digits = m.form(x)[0]
    bits = m.bits(x)
    k = m.f.ashr(m.f.sub(bits, _SQRT_HALF[x.type.bits]), digits)
    return k, m.from_bits(m.f.sub(bits, m.f.shl(k, digits)))


def log_sum(m: FloatMath, k: Value, f: Value) -> Value:
    """k*ln(2) + log(1 + f)."""
    high, low = LN2[f.type.bits]
    half_square = m.mul(m.mul(f, f), 0.5)
    if f.type.bits == 32:
        cube = m.mul(m.mul(f, m.mul(f, f)), m.poly(f, tables.LOG))
        return m.mad(k, high, m.add(f, m.sub(m.mad(k, low, cube), half_square)))
    s = m.div(f, m.add(f, 2.0))
    square = m.mul(s, s)
    rest = m.mul(square, m.poly(square, tables.LOG_RATIO))
    inner = m.mad(k, low, m.mul(s, m.add(half_square, rest)))
    return m.mad(k, high, m.sub(f, m.sub(half_square, inner)))


def _guarded(m: FloatMath, x: Value, result: Value) -> Value:
    """`result` as a logarithm of x, with -inf at 0, inf at inf and NaN below 0."""
    result = m.select(m.equal(x, 0.0), -math.inf, result)
    result = m.select(m.equal(x, math.inf), x, result)
    return m.select(m.f.fcmp("oge", x, 0.0), result, math.nan)


def log(m: FloatMath, x: Value) -> Value:
    """Natural logarithm."""
    return _guarded(m, x, log_sum(m, *log_parts(m, x)))


def _log_mantissa(m: FloatMath, f: Value) -> Value:
    """log(1 + f)."""
    return log_sum(m, const(f.type, 0.0), f)


def log2(m: FloatMath, x: Value) -> Value:
    """Logarithm to base 2; exact for powers of 2."""
    k, f = log_parts(m, x)
    return _guarded(m, x, m.mad(_log_mantissa(m, f), 1 / math.log(2), k))


def log10(m: FloatMath, x: Value) -> Value:
    """Logarithm to base 10."""
    k, f = log_parts(m, x)
    high, low = _LOG10_2[x.type.bits]
    rest = m.mad(_log_mantissa(m, f), 1 / math.log(10), m.mul(k, low))
    return _guarded(m, x, m.mad(k, high, rest))


def log1p(m: FloatMath, x: Value) -> Value:
    """log(1 + x), accurate near 0."""
    digits = m.form(x)[0]
    sum_ = m.add(x, 1.0)
    k, mantissa = _split(m, sum_)
    # (1 + x) / 2**k - 1 without the rounding of 1 + x; for large x it does not matter, and 2**-k is denormal.
    large = m.greater(x, 2.0 ** (digits + 10))
    shrink = m.power_of_two(m.f.sub(0, m.select(large, 0, k)))
    f = m.select(large, m.sub(mantissa, 1.0), m.mad(x, shrink, m.sub(shrink, 1.0)))
    result = log_sum(m, m.from_small_int(k), f)
    result = m.select(m.equal(x, -1.0), -math.inf, result)
    result = m.select(m.equal(x, math.inf), x, result)
    result = m.select(m.f.fcmp("oge", x, -1.0), result, math.nan)
    return m.select(m.equal(x, 0.0), x, result)


def asinh(m: FloatMath, x: Value) -> Value:
    """Inverse hyperbolic sine."""
    a = m.abs(x)
    huge = m.greater(a, _HUGE[x.type.bits])
    square = m.mul(a, a)
    near = m.add(a, m.div(square, m.add(m.sqrt(m.add(square, 1.0)), 1.0)))
    result = log1p(m, m.select(huge, a, near))
    return m.copysign(m.add(result, m.select(huge, const(x.type, math.log(2)), 0.0)), x)


def acosh(m: FloatMath, x: Value) -> Value:
    """Inverse hyperbolic cosine; NaN below 1."""
    huge = m.greater(x, _HUGE[x.type.bits])
    t = m.sub(x, 1.0)
    near = m.add(t, m.sqrt(m.mad(t, t, m.mul(t, 2.0))))
    result = log1p(m, m.select(huge, x, near))
    result = m.add(result, m.select(huge, const(x.type, math.log(2)), 0.0))
    return m.select(m.less(x, 1.0), math.nan, result)


def atanh(m: FloatMath, x: Value) -> Value:
    """Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond."""
    a = m.abs(x)
    return m.copysign(m.mul(log1p(m, m.div(m.mul(a, 2.0), m.sub(1.0, a))), 0.5), x)


def pow(m: FloatMath, x: Value, y: Value) -> Value:
    """x**y with C's edge cases: x**0 and 1**y are 1 even for NaN; a negative x needs an integer y."""
    if x.type.bits == 64:
        return m.library("pow", x, y)
    size = m.narrow(_power_of_size(m, m.widen(m.abs(x)), m.widen(y)))
    return _with_sign_and_edges(m, x, y, size)


def _power_of_size(m: FloatMath, a: Value, y: Value) -> Value:
    """a**y in double precision to about 2**-32, for a and y that were single precision numbers, a not negative."""
    k, mantissa = _split(m, a)
    s = m.div(m.sub(mantissa, 1.0), m.add(mantissa, 1.0))
    logarithm = m.mad(s, m.poly(m.mul(s, s), tables.LOG2_RATIO), m.from_small_int(k))
    logarithm = m.select(m.equal(a, 0.0), -math.inf, m.select(m.equal(a, math.inf), math.inf, logarithm))
    exponent = m.at_least(m.at_most(m.mul(y, logarithm), 200.0), -200.0)
    n, i = m.nearest(exponent)
    r = m.sub(exponent, n)
    return m.mul(m.mad(r, m.poly(r, tables.EXP2_SHORT), 1.0), m.power_of_two(i))


def _with_sign_and_edges(m: FloatMath, x: Value, y: Value, size: Value) -> Value:
    f = m.f
    whole = m.equal(m.trunc(y), y)
    half = m.mul(y, 0.5)
    odd = f.and_(whole, f.and_(f.fcmp("une", m.trunc(half), half), m.less(m.abs(y), 2.0**24)))
    result = m.select(odd, m.copysign(size, x), size)
    finite_negative = f.and_(m.less(x, 0.0), m.greater(x, -math.inf))
    result = m.select(f.and_(finite_negative, f.not_(whole)), math.nan, result)
    result = m.select(m.is_nan(x), math.nan, result)
    # (-1)**inf: the logarithm is 0 and its product with infinity NaN
    unit = f.and_(m.equal(m.abs(x), 1.0), m.equal(m.abs(y), math.inf))
    return m.select(f.or_(f.or_(unit, m.equal(x, 1.0)), m.equal(y, 0.0)), 1.0, result)
