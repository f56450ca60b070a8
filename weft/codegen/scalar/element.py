"""Elements: how a dtype is held in LLVM registers, and how elements are made, cast and rounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from weft.codegen.emit import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Function, LType, Value, const, like, vec
from weft.codegen.math import casts
from weft.codegen.math.core import FloatMath
from weft.codegen.math.functions import BINARY, UNARY
from weft.codegen.target import Target
from weft.support.errors import DTypeError
from weft.types import dtype as dt
from weft.types.dtype import DType

_TYPES: dict[DType, LType] = {
    dt.bool_: I1, dt.uint8: I8, dt.int8: I8, dt.int16: I16, dt.int32: I32, dt.int64: I64,
    dt.float16: F16, dt.bfloat16: BF16, dt.float32: F32, dt.float64: F64, dt.complex64: F32, dt.complex128: F64,
}
_HALVES = (dt.float16, dt.bfloat16)


@dataclass(frozen=True)
class Element:
    """One vector of elements: its dtype, its value, and if complex the imaginary part (`value` is the real one)."""

    dtype: DType
    value: Value
    imag: Value | None = None

    @property
    def pair(self) -> tuple[Value, Value]:
        """(real part, imaginary part) of a complex element."""
        assert self.imag is not None
        return self.value, self.imag


def register_type(dtype: DType, lanes: int) -> LType:
    """The LLVM type of a vector of elements while it is computed with; of one part if complex."""
    return vec(_TYPES[dtype], lanes)


def memory_type(dtype: DType, lanes: int) -> LType:
    """The LLVM type of a vector of elements in memory: as in a register, but a bool is a byte."""
    return vec(I8 if dtype is dt.bool_ else _TYPES[dtype], lanes)


def illegal(name: str, x: Element) -> DTypeError:
    """The error for a dtype that an operation is not defined for."""
    return DTypeError(f"{name}: not defined for {x.dtype}; cast it first")


class ScalarValues:
    """The protocol's values and casts, and what the other operations are built with."""

    def __init__(self, function: Function, lanes: int, target: Target) -> None:
        self.f = function
        self.lanes = lanes
        self.target = target
        self.m = FloatMath(function, target.has_fma, target.has_scale)

    # ---- values

    def element(self, dtype: DType, value: Value, imag: Value | None = None) -> Element:
        """An Element from a register value. Raises DTypeError if the LLVM type is not the dtype's."""
        expected = register_type(dtype, self.lanes)
        if value.type is not expected or (imag is not None) != dtype.is_complex:
            raise DTypeError(f"LlvmScalar: {dtype} is held as {expected}, got {value.type}")
        return Element(dtype, value, imag)

    def from_memory(self, dtype: DType, value: Value) -> Element:
        """An Element from a loaded value of `memory_type` (not complex: load its parts)."""
        return self.element(dtype, self.f.icmp("ne", value, 0) if dtype is dt.bool_ else value)

    def to_memory(self, x: Element) -> Value:
        """The value to store for a real Element."""
        return self.f.zext(x.value, I8) if x.dtype is dt.bool_ else x.value

    def const(self, value: complex | float | int | bool, dtype: DType) -> Element:
        """`value` in every lane; integers wrap."""
        type = register_type(dtype, self.lanes)
        if dtype.is_complex:
            number = complex(value)
            return Element(dtype, const(type, number.real), const(type, number.imag))
        if dtype is dt.bool_:
            return Element(dtype, const(type, int(value != 0)))
        if isinstance(value, complex):
            raise DTypeError(f"value {value} cannot be converted to type {dtype} without overflow")
        if dtype.category != dt.INT:
            return Element(dtype, const(type, float(value)))
        if not math.isfinite(value):
            raise DTypeError(f"value {value} cannot be converted to type {dtype} without overflow")
        return Element(dtype, const(type, int(value)))

    def dtype(self, x: Element) -> DType:
        return x.dtype

    def bits(self, x: Element) -> Element:
        integer = {dt.float32: dt.int32, dt.float64: dt.int64, dt.float16: dt.int16, dt.bfloat16: dt.int16}.get(x.dtype)
        if integer is None:
            raise illegal("bits", x)
        return Element(integer, self.f.bitcast(x.value, register_type(integer, self.lanes)))

    def from_bits(self, x: Element, dtype: DType) -> Element:
        return Element(dtype, self.f.bitcast(x.value, register_type(dtype, self.lanes)))

    def cast(self, x: Element, dtype: DType) -> Element:
        if x.dtype is dtype:
            return x
        if dtype is dt.bool_:
            return self._cast_to_bool(x)
        if dtype.is_complex:
            return self._cast_to_complex(x, dtype)
        if x.imag is not None:
            return self.cast(Element(x.dtype.to_real(), x.value), dtype)
        if x.dtype in _HALVES:
            return self.cast(self._single(x), dtype)
        if dtype in _HALVES:
            return self._half(self._narrowed_for(dtype, x), dtype)
        if x.dtype.is_floating_point:
            return self._cast_float(x, dtype)
        return self._cast_int(x, dtype)

    def _cast_to_bool(self, x: Element) -> Element:
        if x.dtype.category < dt.FLOAT:
            return Element(dt.bool_, self.f.icmp("ne", x.value, 0))
        real = self._single(x)
        nonzero = self.f.fcmp("une", real.value, 0.0)
        if real.imag is not None:
            nonzero = self.f.or_(nonzero, self.f.fcmp("une", real.imag, 0.0))
        return Element(dt.bool_, nonzero)

    def _cast_to_complex(self, x: Element, dtype: DType) -> Element:
        part = dtype.to_real()
        if x.imag is None:
            return self._zero_imaginary(self.cast(x, part), dtype)
        parts = [self.cast(Element(x.dtype.to_real(), v), part).value for v in x.pair]
        return Element(dtype, parts[0], parts[1])

    def _zero_imaginary(self, x: Element, dtype: DType) -> Element:
        return Element(dtype, x.value, const(x.value.type, 0.0))

    def _cast_float(self, x: Element, dtype: DType) -> Element:
        f = self.f
        if dtype is dt.float64:
            return Element(dtype, f.fpext(x.value, F64))
        if dtype is dt.float32:
            return Element(dtype, f.fptrunc(x.value, F32))
        # uint8 of -1.0 is 255, as C compilers have it; only a float64 can tell 64 bits in between from 32.
        wide = I64 if dtype is dt.int64 or (dtype is dt.uint8 and x.dtype is dt.float64) else I32
        whole = self._whole(x.value, wide)
        return Element(dtype, whole if dtype.itemsize * 8 == wide.bits else f.trunc(whole, _TYPES[dtype]))

    def _whole(self, x: Value, wide: LType) -> Value:
        """A float cut to an integer; what does not fit (NaN too) becomes the most negative one,
        which x86 gives by itself."""
        f = self.f
        if self.target.is_x86:
            return f.fptosi(x, wide)
        limit = 2.0 ** (wide.bits - 1)
        return f.fptosi(f.select(self.m.less(self.m.abs(x), limit), x, -limit), wide)

    def _cast_int(self, x: Element, dtype: DType) -> Element:
        f, to = self.f, _TYPES[dtype]
        if dtype.is_floating_point:
            if x.dtype is dt.bool_:
                return Element(dtype, f.select(x.value, const(like(to, x.value.type), 1.0), 0.0))
            return Element(dtype, f.sitofp(self._widened(x), to))
        if x.dtype.itemsize == dtype.itemsize and x.dtype is not dt.bool_:
            return Element(dtype, x.value)
        if to.bits < x.value.type.bits:
            return Element(dtype, f.trunc(x.value, to))
        return Element(dtype, f.sext(x.value, to) if x.dtype.is_signed else f.zext(x.value, to))

    def _widened(self, x: Element) -> Value:
        """An integer of at least 32 bits with the same value, so that conversions are signed."""
        if x.value.type.bits >= 32:
            return x.value
        return self.f.sext(x.value, I32) if x.dtype.is_signed else self.f.zext(x.value, I32)

    # ---- half precisions

    def _single(self, x: Element) -> Element:
        """A half precision element in float32; any other element as it is."""
        if x.dtype is dt.float16:
            return Element(dt.float32, casts.f16_to_f32(self.m, x.value, self.target.has_f16))
        if x.dtype is dt.bfloat16:
            return Element(dt.float32, casts.bf16_to_f32(self.m, x.value))
        return x

    def _narrowed_for(self, half: DType, x: Element) -> Element:
        """A number in float32 on its way to half precision.

        float64 to float16 rounds once, as in NumPy; bfloat16 is reached by way of float32, as in ml_dtypes."""
        if x.dtype is dt.float64 and half is dt.float16:
            return Element(dt.float32, casts.f64_to_f32_odd(self.m, x.value))
        return self.cast(x, dt.float32)

    def _half(self, x: Element, dtype: DType) -> Element:
        """A float32 element rounded to `dtype`; for other dtypes as it is."""
        if dtype is dt.float16:
            return Element(dtype, casts.f32_to_f16(self.m, x.value, self.target.has_f16))
        if dtype is dt.bfloat16:
            return Element(dtype, casts.f32_to_bf16(self.m, x.value))
        return x

    def _unary(self, name: str, x: Element) -> Element:
        """A function of one float, in the element's own dtype."""
        if not x.dtype.is_floating_point:
            raise illegal(name, x)
        up = self._single(x)
        return self._half(Element(up.dtype, UNARY[name](self.m, up.value)), x.dtype)

    def _binary(self, name: str, x: Element, y: Element) -> Element:
        """A function of two floats, in their dtype."""
        return self._floats(name, BINARY[name], x, y)

    def _floats(self, name: str, rule: Callable[[FloatMath, Value, Value], Value], x: Element, y: Element) -> Element:
        self._same(name, x, y)
        if not x.dtype.is_floating_point:
            raise illegal(name, x)
        a, b = self._single(x), self._single(y)
        return self._half(Element(a.dtype, rule(self.m, a.value, b.value)), x.dtype)

    def _complex_unary(self, name: str, rule: Callable[..., tuple[Value, Value]], x: Element) -> Element:
        """`rule` of complex elements, the real function `name` of others."""
        if x.imag is None:
            return self._unary(name, x)
        real, imag = rule(self.m, x.pair)
        return Element(x.dtype, real, imag)

    def _same(self, name: str, x: Element, y: Element) -> None:
        if x.dtype is not y.dtype:
            raise DTypeError(f"{name}: operands have dtypes {x.dtype} and {y.dtype}")

    def _parts(self, rule: Callable[[Value, Value], Value], x: Element, y: Element) -> Element:
        """`rule` of real parts and of imaginary parts."""
        assert x.imag is not None and y.imag is not None
        return Element(x.dtype, rule(x.value, y.value), rule(x.imag, y.imag))
