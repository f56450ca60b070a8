"""The LLVM handler of the scalar protocol: a pointwise body, run over an LlvmScalar, writes the code of one vector of elements.

    s = LlvmScalar(function, lanes, target)
    x = s.element(float32, function.load(vec(F32, lanes), p))
    y = op.scalar(s, x, s.const(2.0, float32))
    function.store(y.value, q)

Half precisions compute in float32 and round after each operation. No operation can trap or depend on the number of lanes.
"""

from __future__ import annotations

import math as py_math
from collections.abc import Callable
from dataclasses import dataclass

from weft.codegen import math_cast, math_complex, math_int
from weft.codegen.emit import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Function, LType, Value, const, like, vec
from weft.codegen.math import BINARY, UNARY
from weft.codegen.math_core import FloatMath
from weft.codegen.target import Target
from weft.support.errors import DTypeError
from weft.types import dtype as dt
from weft.types.dtype import DType

_TYPES: dict[DType, LType] = {
    dt.bool_: I1, dt.uint8: I8, dt.int8: I8, dt.int16: I16, dt.int32: I32, dt.int64: I64,
    dt.float16: F16, dt.bfloat16: BF16, dt.float32: F32, dt.float64: F64, dt.complex64: F32, dt.complex128: F64,
}  # fmt: skip
_HALVES = (dt.float16, dt.bfloat16)


@dataclass(frozen=True)
class Element:
    """One vector of elements: its dtype, its value, and for complex dtypes the imaginary part (`value` is the real one)."""

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


class LlvmScalar:
    """weft.ops.scalar.ScalarOps over Elements of `lanes` lanes (1: scalars), appended to `function`."""

    def __init__(self, function: Function, lanes: int, target: Target) -> None:
        self.f = function
        self.lanes = lanes
        self.target = target
        self.m = FloatMath(function, target.has_fma)

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
        if isinstance(value, complex):
            value = value.real
        if dtype is dt.bool_:
            return Element(dtype, const(type, int(value != 0)))
        return Element(dtype, const(type, int(value) if dtype.category == dt.INT else float(value)))

    def dtype(self, x: Element) -> DType:
        return x.dtype

    def bits(self, x: Element) -> Element:
        integer = {dt.float32: dt.int32, dt.float64: dt.int64, dt.float16: dt.int16, dt.bfloat16: dt.int16}.get(x.dtype)
        if integer is None:
            raise _illegal("bits", x)
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
        if dtype is dt.int64:
            return Element(dtype, f.fptosi(x.value, I64))
        # Through 32 bits: uint8 of -1.0 is 255, as C compilers on x86 and ARM have it.
        whole = f.fptosi(x.value, I32)
        return Element(dtype, whole if dtype is dt.int32 else f.trunc(whole, _TYPES[dtype]))

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
            return Element(dt.float32, math_cast.f16_to_f32(self.m, x.value, self.target.has_f16))
        if x.dtype is dt.bfloat16:
            return Element(dt.float32, math_cast.bf16_to_f32(self.m, x.value))
        return x

    def _narrowed_for(self, half: DType, x: Element) -> Element:
        """A number in float32 on its way to half precision. float64 to float16 rounds once, as NumPy does; bfloat16 is reached
        by way of float32, as in ml_dtypes and PyTorch."""
        if x.dtype is dt.float64 and half is dt.float16:
            return Element(dt.float32, math_cast.f64_to_f32_odd(self.m, x.value))
        return self.cast(x, dt.float32)

    def _half(self, x: Element, dtype: DType) -> Element:
        """A float32 element rounded to `dtype`; for other dtypes as it is."""
        if dtype is dt.float16:
            return Element(dtype, math_cast.f32_to_f16(self.m, x.value, self.target.has_f16))
        if dtype is dt.bfloat16:
            return Element(dtype, math_cast.f32_to_bf16(self.m, x.value))
        return x

    def _unary(self, name: str, x: Element) -> Element:
        """A function of one float, in the element's own dtype."""
        if not x.dtype.is_floating_point:
            raise _illegal(name, x)
        up = self._single(x)
        return self._half(Element(up.dtype, UNARY[name](self.m, up.value)), x.dtype)

    def _binary(self, name: str, x: Element, y: Element) -> Element:
        """A function of two floats, in their dtype."""
        return self._floats(name, BINARY[name], x, y)

    def _floats(self, name: str, rule: Callable[[FloatMath, Value, Value], Value], x: Element, y: Element) -> Element:
        self._same(name, x, y)
        if not x.dtype.is_floating_point:
            raise _illegal(name, x)
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

    # ---- arithmetic

    def add(self, x: Element, y: Element) -> Element:
        self._same("add", x, y)
        if x.dtype.is_complex:
            return self._parts(self.f.fadd, x, y)
        if x.dtype.is_floating_point:
            return self._floats("add", FloatMath.add, x, y)
        return Element(x.dtype, (self.f.or_ if x.dtype is dt.bool_ else self.f.add)(x.value, y.value))

    def sub(self, x: Element, y: Element) -> Element:
        self._same("sub", x, y)
        if x.dtype.is_complex:
            return self._parts(self.f.fsub, x, y)
        if x.dtype.is_floating_point:
            return self._floats("sub", FloatMath.sub, x, y)
        return Element(x.dtype, self.f.sub(self._int("sub", x), y.value))

    def mul(self, x: Element, y: Element) -> Element:
        self._same("mul", x, y)
        if x.dtype.is_complex:
            return Element(x.dtype, *math_complex.mul(self.m, x.pair, y.pair))
        if x.dtype.is_floating_point:
            return self._floats("mul", FloatMath.mul, x, y)
        return Element(x.dtype, (self.f.and_ if x.dtype is dt.bool_ else self.f.mul)(x.value, y.value))

    def div(self, x: Element, y: Element) -> Element:
        self._same("div", x, y)
        if x.dtype.is_complex:
            return Element(x.dtype, *math_complex.div(self.m, x.pair, y.pair))
        return self._floats("div", FloatMath.div, x, y)

    def floordiv(self, x: Element, y: Element) -> Element:
        return self._division("floordiv", math_int.floor_quotient, x, y)

    def truncdiv(self, x: Element, y: Element) -> Element:
        return self._division("truncdiv", math_int.quotient, x, y)

    def remainder(self, x: Element, y: Element) -> Element:
        return self._division("remainder", math_int.floor_rest, x, y)

    def fmod(self, x: Element, y: Element) -> Element:
        return self._division("fmod", math_int.rest, x, y)

    def _division(self, name: str, rule: Callable[[Function, Value, Value, bool], Value], x: Element, y: Element) -> Element:
        if x.dtype.category >= dt.FLOAT:
            return self._binary(name, x, y)
        self._same(name, x, y)
        return Element(x.dtype, rule(self.f, self._int(name, x), y.value, x.dtype.is_signed))

    def _int(self, name: str, x: Element) -> Value:
        if x.dtype.category != dt.INT:
            raise _illegal(name, x)
        return x.value

    def neg(self, x: Element) -> Element:
        if x.imag is not None:
            return Element(x.dtype, self.f.fneg(x.value), self.f.fneg(x.imag))
        if x.dtype.is_floating_point:
            return self._half(Element(self._single(x).dtype, self.f.fneg(self._single(x).value)), x.dtype)
        return Element(x.dtype, self.f.sub(0, self._int("neg", x)))

    def abs(self, x: Element) -> Element:
        if x.imag is not None:
            return Element(x.dtype.to_real(), math_complex.absolute(self.m, x.pair))
        if x.dtype.is_floating_point:
            up = self._single(x)
            return self._half(Element(up.dtype, self.m.abs(up.value)), x.dtype)
        if not x.dtype.is_signed:
            return x
        return Element(x.dtype, self.f.select(self.f.icmp("slt", x.value, 0), self.f.sub(0, x.value), x.value))

    def sign(self, x: Element) -> Element:
        f = self.f
        if x.imag is not None:
            return Element(x.dtype, *math_complex.sign(self.m, x.pair))
        if x.dtype.is_floating_point:
            up = self._single(x)
            below = f.select(self.m.less(up.value, 0.0), const(up.value.type, -1.0), f.fadd(up.value, 0.0))
            return self._half(Element(up.dtype, f.select(self.m.greater(up.value, 0.0), 1.0, below)), x.dtype)
        if x.dtype is dt.bool_:
            return x
        positive = f.zext(f.icmp("sgt" if x.dtype.is_signed else "ne", x.value, 0), x.value.type)
        return Element(x.dtype, f.or_(positive, f.ashr(x.value, x.value.type.bits - 1)) if x.dtype.is_signed else positive)

    def pow(self, x: Element, y: Element) -> Element:
        self._same("pow", x, y)
        if x.dtype.is_complex:
            return Element(x.dtype, *math_complex.pow(self.m, x.pair, y.pair))
        if x.dtype.is_floating_point:
            return self._float_power(x, y)
        if x.dtype is dt.bool_:
            return Element(x.dtype, self.f.or_(x.value, self.f.not_(y.value)))
        return Element(x.dtype, math_int.power(self.f, x.value, y.value, x.dtype.is_signed))

    def _float_power(self, x: Element, y: Element) -> Element:
        """Squares and reciprocals, exactly rounded, where the exponent is known; else pow."""
        known = y.value.const
        if known == 1:
            return x
        if known == 2:
            return self.mul(x, x)
        if known == -1:
            return self.div(self.const(1.0, x.dtype), x)
        return self._binary("pow", x, y)

    # ---- rounding

    def floor(self, x: Element) -> Element:
        return x if x.dtype.category < dt.FLOAT else self._unary("floor", x)

    def ceil(self, x: Element) -> Element:
        return x if x.dtype.category < dt.FLOAT else self._unary("ceil", x)

    def trunc(self, x: Element) -> Element:
        return x if x.dtype.category < dt.FLOAT else self._unary("trunc", x)

    def round(self, x: Element) -> Element:
        return x if x.dtype.category < dt.FLOAT else self._unary("round", x)

    # ---- functions of floats; those with a complex form take complex elements too

    def sqrt(self, x: Element) -> Element:
        return self._complex_unary("sqrt", math_complex.sqrt, x)

    def rsqrt(self, x: Element) -> Element:
        if x.imag is not None:
            return self.div(self.const(1.0, x.dtype), self.sqrt(x))
        return self._unary("rsqrt", x)

    def exp(self, x: Element) -> Element:
        return self._complex_unary("exp", math_complex.exp, x)

    def exp2(self, x: Element) -> Element:
        if x.imag is not None:
            return self.exp(self.mul(x, self.const(py_math.log(2), x.dtype)))
        return self._unary("exp2", x)

    def expm1(self, x: Element) -> Element:
        return self._unary("expm1", x)

    def log(self, x: Element) -> Element:
        return self._complex_unary("log", math_complex.log, x)

    def log2(self, x: Element) -> Element:
        return self._scaled_log("log2", 2, x)

    def log10(self, x: Element) -> Element:
        return self._scaled_log("log10", 10, x)

    def _scaled_log(self, name: str, base: int, x: Element) -> Element:
        if x.imag is None:
            return self._unary(name, x)
        real, imag = self.log(x).pair
        return Element(x.dtype, self.f.fmul(real, 1 / py_math.log(base)), self.f.fmul(imag, 1 / py_math.log(base)))

    def log1p(self, x: Element) -> Element:
        return self._unary("log1p", x)

    def sin(self, x: Element) -> Element:
        return self._turned("sin", math_complex.sinh, x)

    def cos(self, x: Element) -> Element:
        if x.imag is not None:
            return Element(x.dtype, *math_complex.cosh(self.m, math_complex.turned(self.m, x.pair)))
        return self._unary("cos", x)

    def tan(self, x: Element) -> Element:
        return self._turned("tan", math_complex.tanh, x)

    def _turned(self, name: str, rule: Callable[..., tuple[Value, Value]], x: Element) -> Element:
        """-i rule(i x): the circular function of a hyperbolic one."""
        if x.imag is None:
            return self._unary(name, x)
        result = rule(self.m, math_complex.turned(self.m, x.pair))
        return Element(x.dtype, *math_complex.unturned(self.m, result))

    def asin(self, x: Element) -> Element:
        return self._unary("asin", x)

    def acos(self, x: Element) -> Element:
        return self._unary("acos", x)

    def atan(self, x: Element) -> Element:
        return self._unary("atan", x)

    def atan2(self, y: Element, x: Element) -> Element:
        return self._binary("atan2", y, x)

    def sinh(self, x: Element) -> Element:
        return self._complex_unary("sinh", math_complex.sinh, x)

    def cosh(self, x: Element) -> Element:
        return self._complex_unary("cosh", math_complex.cosh, x)

    def tanh(self, x: Element) -> Element:
        return self._complex_unary("tanh", math_complex.tanh, x)

    def asinh(self, x: Element) -> Element:
        return self._unary("asinh", x)

    def acosh(self, x: Element) -> Element:
        return self._unary("acosh", x)

    def atanh(self, x: Element) -> Element:
        return self._unary("atanh", x)

    def sigmoid(self, x: Element) -> Element:
        if x.imag is not None:
            one = self.const(1.0, x.dtype)
            return self.div(one, self.add(one, self.exp(self.neg(x))))
        return self._unary("sigmoid", x)

    def erf(self, x: Element) -> Element:
        return self._unary("erf", x)

    def erfc(self, x: Element) -> Element:
        return self._unary("erfc", x)

    def erfinv(self, x: Element) -> Element:
        return self._unary("erfinv", x)

    def copysign(self, x: Element, y: Element) -> Element:
        return self._binary("copysign", x, y)

    # ---- order

    def maximum(self, x: Element, y: Element) -> Element:
        return self._extreme("maximum", "gt", x, y)

    def minimum(self, x: Element, y: Element) -> Element:
        return self._extreme("minimum", "lt", x, y)

    def _extreme(self, name: str, order: str, x: Element, y: Element) -> Element:
        if x.dtype.is_floating_point:
            return self._binary(name, x, y)
        return Element(x.dtype, self.f.select(self._compared(name, order, x, y), x.value, y.value))

    def eq(self, x: Element, y: Element) -> Element:
        return self._equality("eq", self.f.and_, x, y)

    def ne(self, x: Element, y: Element) -> Element:
        return self._equality("ne", self.f.or_, x, y)

    def _equality(self, order: str, join: Callable[[Value, Value], Value], x: Element, y: Element) -> Element:
        same = self._compared(order, order, x, y)
        if x.imag is not None and y.imag is not None:
            predicate = "oeq" if order == "eq" else "une"
            same = join(same, self.f.fcmp(predicate, x.imag, y.imag))
        return Element(dt.bool_, same)

    def lt(self, x: Element, y: Element) -> Element:
        return self._ordering("lt", x, y)

    def le(self, x: Element, y: Element) -> Element:
        return self._ordering("le", x, y)

    def gt(self, x: Element, y: Element) -> Element:
        return self._ordering("gt", x, y)

    def ge(self, x: Element, y: Element) -> Element:
        return self._ordering("ge", x, y)

    def _ordering(self, order: str, x: Element, y: Element) -> Element:
        if x.dtype.is_complex:
            raise _illegal(order, x)
        return Element(dt.bool_, self._compared(order, order, x, y))

    def _compared(self, name: str, order: str, x: Element, y: Element) -> Value:
        """The i1 of an ordering of real values (of the real parts of complex ones)."""
        self._same(name, x, y)
        if x.dtype.category >= dt.FLOAT:
            return self.f.fcmp(("u" if order == "ne" else "o") + order, self._single(x).value, self._single(y).value)
        if order in ("eq", "ne"):
            return self.f.icmp(order, x.value, y.value)
        return self.f.icmp(("s" if x.dtype.is_signed else "u") + order, x.value, y.value)

    def isnan(self, x: Element) -> Element:
        return self._classified(x, lambda v: self.m.is_nan(v), any_part=True, of_ints=False)

    def isinf(self, x: Element) -> Element:
        return self._classified(x, lambda v: self.m.equal(self.m.abs(v), py_math.inf), any_part=True, of_ints=False)

    def isfinite(self, x: Element) -> Element:
        return self._classified(x, lambda v: self.m.less(self.m.abs(v), py_math.inf), any_part=False, of_ints=True)

    def _classified(self, x: Element, test: Callable[[Value], Value], any_part: bool, of_ints: bool) -> Element:
        if x.dtype.category < dt.FLOAT:
            return self.const(of_ints, dt.bool_)
        found = test(self._single(x).value)
        if x.imag is not None:
            found = (self.f.or_ if any_part else self.f.and_)(found, test(x.imag))
        return Element(dt.bool_, found)

    def signbit(self, x: Element) -> Element:
        if x.dtype.is_complex:
            raise _illegal("signbit", x)
        if not x.dtype.is_signed:
            return self.const(False, dt.bool_)
        integer = self.bits(x) if x.dtype.is_floating_point else x
        return Element(dt.bool_, self.f.icmp("slt", integer.value, 0))

    # ---- bits of bool and int

    def bit_and(self, x: Element, y: Element) -> Element:
        return self._bitwise("bit_and", self.f.and_, x, y)

    def bit_or(self, x: Element, y: Element) -> Element:
        return self._bitwise("bit_or", self.f.or_, x, y)

    def bit_xor(self, x: Element, y: Element) -> Element:
        return self._bitwise("bit_xor", self.f.xor, x, y)

    def _bitwise(self, name: str, rule: Callable[[Value, Value], Value], x: Element, y: Element) -> Element:
        self._same(name, x, y)
        if x.dtype.category >= dt.FLOAT:
            raise _illegal(name, x)
        return Element(x.dtype, rule(x.value, y.value))

    def bit_not(self, x: Element) -> Element:
        if x.dtype.category >= dt.FLOAT:
            raise _illegal("bit_not", x)
        return Element(x.dtype, self.f.not_(x.value))

    def shl(self, x: Element, y: Element) -> Element:
        self._same("shl", x, y)
        return Element(x.dtype, math_int.shift_left(self.f, self._int("shl", x), y.value))

    def shr(self, x: Element, y: Element) -> Element:
        self._same("shr", x, y)
        return Element(x.dtype, math_int.shift_right(self.f, self._int("shr", x), y.value, x.dtype.is_signed))

    # ---- choice

    def where(self, condition: Element, x: Element, y: Element) -> Element:
        self._same("where", x, y)
        value = self.f.select(condition.value, x.value, y.value)
        if x.imag is None or y.imag is None:
            return Element(x.dtype, value)
        return Element(x.dtype, value, self.f.select(condition.value, x.imag, y.imag))

    # ---- complex

    def complex(self, real: Element, imag: Element) -> Element:
        self._same("complex", real, imag)
        if real.dtype not in (dt.float32, dt.float64):
            raise _illegal("complex", real)
        return Element(real.dtype.to_complex(), real.value, imag.value)

    def real(self, x: Element) -> Element:
        return Element(x.dtype.to_real(), x.value)

    def imag(self, x: Element) -> Element:
        return self.const(0, x.dtype) if x.imag is None else Element(x.dtype.to_real(), x.imag)

    def conj(self, x: Element) -> Element:
        return x if x.imag is None else Element(x.dtype, x.value, self.f.fneg(x.imag))

    def angle(self, x: Element) -> Element:
        if x.imag is not None:
            return Element(x.dtype.to_real(), math_complex.angle(self.m, x.pair))
        if not x.dtype.is_floating_point:
            raise _illegal("angle", x)
        zero, half_turn = self.const(0.0, x.dtype), self.const(py_math.pi, x.dtype)
        turned = self.where(self.lt(x, zero), half_turn, zero)
        return self.where(self.isnan(x), x, turned)


def _illegal(name: str, x: Element) -> DTypeError:
    return DTypeError(f"{name}: not defined for {x.dtype}; cast it first")


