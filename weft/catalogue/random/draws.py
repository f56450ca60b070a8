"""One random element from (counter, key): the bodies of the random operators, in operations whose bits are
the same everywhere.

Only wrapping int64 arithmetic, masks, conversions and float + - * / sqrt are used, in a fixed order and never
contracted, so NumPy and native code agree to the last bit. Random bits: Widynski's "squares" (arXiv:2004.06278)
of a 64-bit counter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft.ops.quantile import DOUBLE, SINGLE
from weft.types import dtype as dt
from weft.types.dtype import DType

_LOW32 = (1 << 32) - 1
_LOW53 = (1 << 53) - 1
_PRECISION = {dt.float16: 11, dt.bfloat16: 8, dt.float32: 24, dt.float64: 53}


def random_bits(s: Any, counter: Any, key: Any, width: int) -> Any:
    """32 or 64 random bits as int64."""
    low, half, up = (s.const(v, dt.int64) for v in (_LOW32, 32, 1 << 32))

    def upper(v: Any) -> Any:
        return s.bit_and(s.shr(v, half), low)

    def swapped(v: Any) -> Any:
        return s.bit_or(upper(v), s.mul(v, up))

    y = s.mul(counter, key)
    z = s.add(y, key)
    x = swapped(s.add(s.mul(y, y), y))
    x = swapped(s.add(s.mul(x, x), z))
    x = swapped(s.add(s.mul(x, x), y))
    x = s.add(s.mul(x, x), z)
    if width == 32:
        return upper(x)
    last = swapped(x)
    return s.bit_xor(x, upper(s.add(s.mul(last, last), y)))


def uniform(s: Any, counter: Any, key: Any, dtype: DType) -> Any:
    """A multiple of 2**-p in [0, 1), where p is the dtype's precision in bits (11, 8, 24, 53)."""
    precision = _PRECISION[dtype]
    width = 64 if precision > 32 else 32
    bits = random_bits(s, counter, key, width)
    kept = s.shr(bits, s.const(width - precision, dt.int64))
    if width == 64:
        kept = s.bit_and(kept, s.const(_LOW53, dt.int64))
    target = dt.compute_dtype(dtype)
    return s.mul(s.cast(kept, target), s.const(2.0**-precision, target))


def integer(s: Any, counter: Any, key: Any, low: Any, high: Any) -> Any:
    """An integer in [low, high), of a range of at most 2**32: 63 random bits modulo the range."""
    bits = s.bit_and(random_bits(s, counter, key, 64), s.const((1 << 63) - 1, dt.int64))
    return s.add(s.remainder(bits, s.sub(high, low)), low)


def wide_integer(s: Any, counter: Any, key: Any, low: Any, high: Any) -> Any:
    """An integer in [low, high), of any range up to 2**64: the upper 64 bits of the product of the range and a random
    number of 128 bits. So no number is likelier than another by more than 2**-64.

    The range is taken modulo 2**64; 0 stands for all 64 bits. The second 64 random bits are those of the counter's
    complement, which no draw counts to.
    """
    count, zero = s.sub(high, low), s.const(0, dt.int64)
    first = random_bits(s, counter, key, 64)
    second = random_bits(s, s.sub(s.const(-1, dt.int64), counter), key, 64)
    lower = s.mul(first, count)
    total = s.add(lower, _upper_product(s, second, count))
    sign = s.const(-(1 << 63), dt.int64)
    carry = s.cast(s.lt(s.bit_xor(total, sign), s.bit_xor(lower, sign)), dt.int64)  # compared without signs
    scaled = s.add(_upper_product(s, first, count), carry)
    return s.add(s.where(s.eq(count, zero), first, scaled), low)


def _upper_product(s: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two numbers of 64 bits without sign."""
    low, half = s.const(_LOW32, dt.int64), s.const(32, dt.int64)

    def upper(v: Any) -> Any:
        return s.bit_and(s.shr(v, half), low)

    def lower(v: Any) -> Any:
        return s.bit_and(v, low)

    cross, other = s.mul(lower(a), upper(b)), s.mul(upper(a), lower(b))
    middle = s.add(s.add(upper(s.mul(lower(a), lower(b))), lower(cross)), lower(other))
    return s.add(s.add(s.mul(upper(a), upper(b)), upper(middle)), s.add(upper(cross), upper(other)))


def _polynomial(s: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule, lowest coefficient first."""
    dtype = s.dtype(x)
    value = s.const(coefficients[-1], dtype)
    for c in reversed(coefficients[:-1]):
        value = s.add(s.mul(value, x), s.const(c, dtype))
    return value


# mantissa bits, exponent bias, the bits of sqrt(1/2), and terms of the series of artanh that are above half an ulp
_LOG_PARTS = {dt.float32: (23, 0x3F3504F3, 5), dt.float64: (52, 0x3FE6A09E667F3BCD, 11)}


def positive_log(s: Any, x: Any) -> Any:
    """log of a positive normal number: k log 2 + 2 artanh((m - 1) / (m + 1)) with x = 2**k m,
    m in [sqrt(1/2), sqrt(2)).

    Error at most 2 ulp for x < 1/2.
    """
    dtype = s.dtype(x)
    mantissa, root_half, terms = _LOG_PARTS[dtype]
    bits = s.bits(x)
    whole = s.dtype(bits)
    k = s.shr(s.sub(bits, s.const(root_half, whole)), s.const(mantissa, whole))
    m = s.from_bits(s.sub(bits, s.mul(k, s.const(1 << mantissa, whole))), dtype)
    one = s.const(1.0, dtype)
    t = s.div(s.sub(m, one), s.add(m, one))
    series = s.mul(t, _polynomial(s, s.mul(t, t), [2.0 / (2 * i + 1) for i in range(terms)]))
    return s.add(s.mul(s.cast(k, dtype), s.const(math.log(2.0), dtype)), series)


_TABLES = {dt.float32: SINGLE, dt.float64: DOUBLE}


def _rational(s: Any, x: Any, parts: tuple[Sequence[float], Sequence[float]]) -> Any:
    return s.div(_polynomial(s, x, parts[0]), _polynomial(s, x, parts[1]))


def lower_quantile(s: Any, p: Any, log: Callable[[Any, Any], Any] = positive_log) -> Any:
    """-z where z is the normal quantile of p in [2**-55, 1/2]: 0 at 1/2, 8.3 at 2**-54. In float64 p may be as small
    as `log` allows: 38.5 at the least number.

    Largest error relative to the exact quantile of the same p: 4e-16 in float64, 3e-7 in float32.
    """
    dtype = s.dtype(p)
    tables = _TABLES[dtype]

    def const(value: float) -> Any:
        return s.const(value, dtype)

    q = s.sub(const(0.5), p)
    centre = s.mul(q, _rational(s, s.sub(const(0.180625), s.mul(q, q)), tables.centre))
    r = s.sqrt(s.neg(log(s, p)))
    tail = _rational(s, s.sub(r, const(1.6)), tables.tail)
    if tables.far is not None:
        tail = s.where(s.le(r, const(5.0)), tail, _rational(s, s.sub(r, const(5.0)), tables.far))
    return s.where(s.le(q, const(0.425)), centre, tail)


def normal(s: Any, counter: Any, key: Any, dtype: DType) -> Any:
    """A standard normal number: the sign is one random bit, the magnitude the quantile of (m + 1/2)
    2**-54 for 53 random bits m.

    So tails reach 8.2 standard deviations in every dtype; half precisions round a float32.
    """
    target = dt.compute_dtype(dtype)
    bits = random_bits(s, counter, key, 64)
    m = s.cast(s.bit_and(bits, s.const(_LOW53, dt.int64)), target)
    p = s.mul(s.add(m, s.const(0.5, target)), s.const(2.0**-54, target))
    size = lower_quantile(s, p)
    return s.where(s.lt(bits, s.const(0, dt.int64)), s.neg(size), size)
