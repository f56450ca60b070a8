"""Remainders and quotients of floats, and the order of numbers that may be NaN."""

from __future__ import annotations

import math

from weft.codegen.emit import Value
from weft.codegen.math.core import FloatMath


def fmod(m: FloatMath, x: Value, y: Value) -> Value:
    """x - trunc(x/y)*y, exactly, with the sign of x."""
    if x.type.bits == 32 and not m.has_fma:
        return m.narrow(_fmod_unfused(m, m.widen(x), m.widen(y)))
    if not m.has_fma:
        return m.library("fmod", x, y)
    size, unit = m.abs(x), m.abs(y)
    quotient = m.trunc(m.div(size, unit))
    return _finished(m, x, y, m.mad(m.neg(quotient), unit, size), quotient, 2.0 ** m.form(x)[0])


def _fmod_unfused(m: FloatMath, x: Value, y: Value) -> Value:
    """fmod of doubles that were single precision numbers: the product is exact without fma."""
    size, unit = m.abs(x), m.abs(y)
    quotient = m.trunc(m.div(size, unit))
    return _finished(m, x, y, m.sub(size, m.mul(quotient, unit)), quotient, 2.0**24)


def _finished(m: FloatMath, x: Value, y: Value, rest: Value, quotient: Value, limit: float) -> Value:
    """A quotient rounded up leaves a negative rest. Quotients beyond `limit` go to the C library."""
    unit = m.abs(y)
    rest = m.select(m.less(rest, 0.0), m.add(rest, unit), rest)
    # a finite x by an infinite y: 0 * inf above was NaN
    rest = m.select(m.f.and_(m.equal(unit, math.inf), m.less(m.abs(x), math.inf)), m.abs(x), rest)
    rest = m.copysign(rest, x)
    # as x/inf and x/NaN are no large quotients, and inf/y has no remainder, only finite operands are rare
    far = m.f.and_(m.greater(quotient, limit), m.f.and_(m.less(m.abs(x), math.inf), m.greater(unit, 0.0)))
    rest = m.select(m.equal(unit, 0.0), math.nan, rest)
    return m.rare(far, rest, "fmod", x, y)


def remainder(m: FloatMath, x: Value, y: Value) -> Value:
    """x - floor(x/y)*y with the sign of y, as Python's %."""
    rest = fmod(m, x, y)
    return _toward_divisor(m, rest, y)[0]


def _toward_divisor(m: FloatMath, rest: Value, y: Value) -> tuple[Value, Value]:
    """(remainder with y's sign, whether that took one more y) from fmod's remainder."""
    f = m.f
    differs = f.icmp("slt", f.xor(m.bits(rest), m.bits(y)), 0)
    moved = f.and_(f.fcmp("one", rest, 0.0), differs)
    result = m.select(moved, m.add(rest, y), rest)
    return m.select(m.equal(rest, 0.0), m.copysign(rest, y), result), moved


def floordiv(m: FloatMath, x: Value, y: Value) -> Value:
    """The integer below x/y, consistent with `remainder`; x/y itself where y is 0."""
    rest = fmod(m, x, y)
    _, moved = _toward_divisor(m, rest, y)
    quotient = m.div(m.sub(x, rest), y)
    quotient = m.select(moved, m.sub(quotient, 1.0), quotient)
    whole = m.floor(quotient)
    whole = m.select(m.greater(m.sub(quotient, whole), 0.5), m.add(whole, 1.0), whole)
    plain = m.div(x, y)
    whole = m.select(m.equal(quotient, 0.0), m.copysign(0.0, plain), whole)
    return m.select(m.equal(y, 0.0), plain, whole)


def truncdiv(m: FloatMath, x: Value, y: Value) -> Value:
    """x/y rounded towards zero."""
    return m.trunc(m.div(x, y))


def maximum(m: FloatMath, x: Value, y: Value) -> Value:
    """The greater; NaN if either is."""
    return m.select(m.is_nan(x), x, m.select(m.greater(x, y), x, y))


def minimum(m: FloatMath, x: Value, y: Value) -> Value:
    """The lesser; NaN if either is."""
    return m.select(m.is_nan(x), x, m.select(m.less(x, y), x, y))


def hypot(m: FloatMath, x: Value, y: Value) -> Value:
    """sqrt(x**2 + y**2) without overflow on the way; infinite if either is."""
    f = m.f
    if x.type.bits == 32:
        wide_x, wide_y = m.widen(x), m.widen(y)
        size = m.narrow(m.sqrt(m.add(m.mul(wide_x, wide_x), m.mul(wide_y, wide_y))))
    else:
        ax, ay = m.abs(x), m.abs(y)
        steep = m.greater(ay, ax)
        small, large = m.select(steep, ax, ay), m.select(steep, ay, ax)
        ratio = m.select(m.f.and_(m.equal(small, 0.0), m.equal(large, 0.0)), 0.0, m.div(small, large))
        size = m.mul(large, m.sqrt(m.mad(ratio, ratio, 1.0)))
    infinite = f.or_(m.equal(m.abs(x), math.inf), m.equal(m.abs(y), math.inf))
    return m.select(infinite, math.inf, size)
