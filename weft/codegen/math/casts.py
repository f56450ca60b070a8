"""Half precision conversions, which LLVM's casts do not cover on every machine.

LLVM would call a compiler's support library (absent from the process) for float16 without F16C and for float64 to
float16; bfloat16 is done with integers everywhere. All round to nearest, halves to even, once.
"""

from __future__ import annotations

import math

from weft.codegen.emit import BF16, F16, F32, I16, I32, Value, like
from weft.codegen.math.core import FloatMath


def f16_to_f32(m: FloatMath, x: Value, has_f16: bool) -> Value:
    """Exact."""
    if has_f16:
        return m.f.fpext(x, F32)
    f = m.f
    bits = f.zext(f.bitcast(x, like(I16, x.type)), I32)
    size = f.and_(bits, 0x7FFF)
    # The fields land 2**112 too low; the product puts that right, for denormals too.
    plain = m.mul(m.from_bits(f.shl(size, 13)), 2.0**112)
    special = m.from_bits(f.or_(f.shl(size, 13), 0x7F800000))
    result = f.select(f.icmp("uge", size, 0x7C00), special, plain)
    return m.from_bits(f.or_(m.bits(result), f.shl(f.and_(bits, 0x8000), 16)))


def f32_to_f16(m: FloatMath, x: Value, has_f16: bool) -> Value:
    """Rounded; too large becomes infinite."""
    if has_f16:
        return m.f.fptrunc(x, F16)
    f = m.f
    bits = m.bits(x)
    size = f.and_(bits, 0x7FFFFFFF)
    even = f.and_(f.lshr(size, 13), 1)
    normal = f.lshr(f.sub(f.add(f.add(size, 0xFFF), even), 112 << 23), 13)
    # Adding 1/2 leaves a denormal's digits at the bottom, rounded.
    small = f.sub(m.bits(m.add(m.from_bits(size), 0.5)), 0x3F000000)
    result = f.select(f.icmp("ult", size, 0x38800000), small, normal)
    result = f.select(f.icmp("uge", size, 0x47800000), 0x7C00, result)
    result = f.select(f.icmp("ugt", size, 0x7F800000), 0x7E00, result)
    signed = f.or_(result, f.lshr(f.and_(bits, -0x80000000), 16))
    return f.bitcast(f.trunc(signed, I16), like(F16, x.type))


def bf16_to_f32(m: FloatMath, x: Value) -> Value:
    """Exact: the same bits, with zeros below."""
    f = m.f
    bits = f.zext(f.bitcast(x, like(I16, x.type)), I32)
    return m.from_bits(f.shl(bits, 16))


def f32_to_bf16(m: FloatMath, x: Value) -> Value:
    """Rounded; NaN stays NaN."""
    f = m.f
    bits = m.bits(x)
    even = f.and_(f.lshr(bits, 16), 1)
    rounded = f.lshr(f.add(f.add(bits, 0x7FFF), even), 16)
    quiet = f.or_(f.lshr(bits, 16), 0x40)
    chosen = f.select(m.is_nan(x), quiet, rounded)
    return f.bitcast(f.trunc(chosen, I16), like(BF16, x.type))


def f64_to_f32_odd(m: FloatMath, x: Value) -> Value:
    """Rounded to odd: an inexact result has its last bit set, so that rounding again does no harm."""
    f = m.f
    near = m.narrow(x)
    back = m.widen(near)
    bits = m.bits(near)
    grew = m.greater(m.abs(back), m.abs(x))
    toward_zero = f.sub(bits, f.zext(grew, I32))
    inexact = f.and_(f.fcmp("one", back, x), m.less(m.abs(x), math.inf))
    return m.from_bits(f.select(inexact, f.or_(toward_zero, 1), bits))
