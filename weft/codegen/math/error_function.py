"""The error function, its complement and its inverse."""

from __future__ import annotations

import math

from weft.codegen.emit import I32, I64, Value, const, like
from weft.codegen.math import tables
from weft.codegen.math.core import FloatMath
from weft.codegen.math.exponential import exp, exp_sum
from weft.codegen.math.logarithm import log

_SPLIT = 0.93
# where erfc has vanished, and the centre of the map that erfcx's polynomial uses
_ERFC_END = {32: 10.2, 64: 27.3}
_ERFCX = {32: (2.0, tables.ERFCX_2), 64: (4.0, tables.ERFCX_4)}
# masks that leave a number whose square is exact
_SHORT = {32: -(1 << 12), 64: -(1 << 27)}


def erf(m: FloatMath, x: Value) -> Value:
    """Error function."""
    a = m.abs(x)
    small = _erf_small(m, a)
    if x.type.bits == 64:
        large = m.sub(1.0, _erfc_positive(m, a))
    else:
        large = m.sub(1.0, exp(m, m.poly(m.at_most(a, 4.0), tables.ERF_TAIL)))
    return m.copysign(m.select(m.less(a, _SPLIT), small, large), x)


def _erf_small(m: FloatMath, x: Value) -> Value:
    """erf(x) for |x| <= 0.93."""
    return m.mad(x, m.poly(m.mul(x, x), tables.ERF), x)


def erfc(m: FloatMath, x: Value) -> Value:
    """1 - erf(x), with relative accuracy for large x."""
    a = m.abs(x)
    tail = _erfc_positive(m, a)
    result = m.select(m.less(x, 0.0), m.sub(2.0, tail), tail)
    return m.select(m.less(a, 0.46), m.sub(1.0, _erf_small(m, x)), result)


def _erfc_positive(m: FloatMath, a: Value) -> Value:
    """erfc(a) = exp(-a**2) * P(q) / (1 + 2a) with q = (a-k)/(a+k), for a >= 0."""
    bits = a.type.bits
    a = m.at_most(a, _ERFC_END[bits])
    centre, table = _ERFCX[bits]
    q = m.div(m.sub(a, centre), m.add(a, centre))
    # a**2 as an exact part and a small one: its rounding error, times a**2, would be exp's relative error
    mask = const(like(I32 if bits == 32 else I64, a.type), _SHORT[bits])
    short = m.from_bits(m.f.and_(m.bits(a), mask))
    decay = exp_sum(m, m.neg(m.mul(short, short)), m.mul(m.sub(short, a), m.add(short, a)))
    return m.div(m.mul(decay, m.horner(q, table[bits])), m.mad(a, 2.0, 1.0))


def erfinv(m: FloatMath, y: Value) -> Value:
    """The x with erf(x) = y; infinite at -1 and 1, NaN beyond."""
    a = m.abs(y)
    w = m.neg(log(m, m.mul(m.sub(1.0, a), m.add(a, 1.0))))
    centre, table = (3.0, tables.ERFINV_TAIL_3) if y.type.bits == 32 else (4.0, tables.ERFINV_TAIL_4)
    near = m.poly(m.sub(w, 2.5), tables.ERFINV)
    far = m.poly(m.sub(m.sqrt(w), centre), table)
    x = m.mul(a, m.select(m.less(w, 5.0), near, far))
    if y.type.bits == 64:
        x = _refined(m, x, a)
    x = m.select(m.equal(a, 1.0), math.inf, x)
    return m.copysign(x, y)


def _refined(m: FloatMath, x: Value, a: Value) -> Value:
    """One step of Halley's method on erf(x) = a, from an x good to seven digits; a < 1."""
    off = m.select(m.less(a, 0.5), m.sub(erf(m, x), a), m.sub(m.sub(1.0, a), _erfc_positive(m, x)))
    step = m.div(m.mul(off, math.sqrt(math.pi) / 2), exp(m, m.neg(m.mul(x, x))))
    return m.sub(x, m.div(step, m.mad(x, step, 1.0)))
