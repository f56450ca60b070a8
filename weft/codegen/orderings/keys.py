"""Integers that are ordered as elements are: NaN is the greatest of all, and the two zeros are equal."""

from __future__ import annotations

from weft.codegen.emit import I8, I16, I32, I64, Function, LType, const, like
from weft.codegen.emit import Value as Scalar
from weft.types import dtype as dt
from weft.types.dtype import DType

DIGIT_BITS = 8
BUCKETS = 1 << DIGIT_BITS
_INFINITY = {dt.float16: 0x7C00, dt.bfloat16: 0x7F80, dt.float32: 0x7F800000, dt.float64: 0x7FF0000000000000}
_INTEGER = {1: I8, 2: I16, 4: I32, 8: I64}


class Keys:
    """Keys of the elements of a dtype, compared as signed integers; in descending order each is the complement."""

    def __init__(self, f: Function, dtype: DType, descending: bool = False) -> None:
        self.f, self.dtype, self.descending = f, dtype, descending
        self.elem: LType = _INTEGER[dtype.itemsize]  # elements are read as their bits
        self.type = I64 if dtype.itemsize == 8 else I32
        self.digits = dtype.itemsize

    @property
    def greatest(self) -> int:
        """The key that no other exceeds."""
        return (1 << (self.type.bits - 1)) - 1

    def of(self, bits: Scalar) -> Scalar:
        """The keys of elements, one or a vector."""
        f = self.f
        key = self._of_float(bits) if self.dtype.is_floating_point else bits
        if key.type.bits < self.type.bits:
            to = like(self.type, key.type)
            key = f.sext(key, to) if self.dtype.is_signed or self.dtype.is_floating_point else f.zext(key, to)
        return f.not_(key) if self.descending else key

    def _of_float(self, bits: Scalar) -> Scalar:
        """Without a sign the bits are in order; below zero the order of the others is reversed."""
        f, width = self.f, bits.type.bits
        low = (1 << (width - 1)) - 1
        magnitude = f.and_(bits, low)
        below = f.icmp("slt", bits, 0)
        key = f.select(f.and_(below, f.icmp("ne", magnitude, 0)), f.xor(bits, low), magnitude)
        return f.select(f.icmp("sgt", magnitude, _INFINITY[self.dtype]), const(bits.type, low), key)

    def is_nan(self, key: Scalar) -> Scalar | None:
        """Whether a key is that of a NaN; None where there is none."""
        if not self.dtype.is_floating_point:
            return None
        greatest = (1 << (self.elem.bits - 1)) - 1
        return self.f.icmp("eq", key, ~greatest if self.descending else greatest)

    def digit(self, word: Scalar, number: int, shift: int = 0) -> Scalar:
        """The digit of this number (0 is the lowest) of a key, shifted up by so many bits in an i64, so that digits are
        in order from 0 on."""
        f = self.f
        word = word if word.type is I64 else f.sext(word, I64)
        digit = f.and_(f.lshr(word, shift + DIGIT_BITS * number), BUCKETS - 1)
        is_biased = number == self.digits - 1 and (self.dtype.is_signed or self.dtype.is_floating_point)
        return f.xor(digit, BUCKETS // 2) if is_biased else digit
