"""Floating point emission at one width and precision: what the math functions are written with.

Nothing here uses fast-math: `add` and `mul` round where they stand, `mad` may be fused, and results do not depend
on how many lanes a vector has. Python numbers are accepted where another operand fixes the type.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from weft.codegen.emit import F32, F64, I32, I64, Function, LType, Signature, Value, const, like

Operand = Value | int | float

# bits: (mantissa bits, exponent bias, 1.5 * 2**mantissa: adding it leaves the nearest integer in the low bits)
_FORMS = {32: (23, 127, 1.5 * 2.0**23), 64: (52, 1023, 1.5 * 2.0**52)}


class FloatMath:
    """Operations on f32 and f64 values of any width, appended to a function.

    has_fma: the target fuses a product and a sum in one instruction; without it `mad` is two roundings.
    has_scale: the target multiplies a vector by powers of two in one instruction (AVX-512).
    """

    def __init__(self, function: Function, has_fma: bool, has_scale: bool = False) -> None:
        self.f = function
        self.has_fma = has_fma
        self.has_scale = has_scale

    # ---- arithmetic

    def add(self, a: Operand, b: Operand) -> Value:
        return self.f.fadd(a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        return self.f.fsub(a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        return self.f.fmul(a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        return self.f.fdiv(a, b)

    def neg(self, a: Value) -> Value:
        return self.f.fneg(a)

    def mad(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a*b + c, fused if the target can."""
        if self.has_fma:
            return self.f.fma(a, b, c)
        return self.f.fadd(self.f.fmul(a, b), c)

    def abs(self, a: Value) -> Value:
        return self.f.intrinsic("fabs", a)

    def sqrt(self, a: Value) -> Value:
        return self.f.intrinsic("sqrt", a)

    def copysign(self, a: Operand, sign: Value) -> Value:
        size = a if isinstance(a, Value) else const(sign.type, a)
        return self.f.intrinsic("copysign", size, sign)

    def floor(self, a: Value) -> Value:
        return self.f.intrinsic("floor", a)

    def ceil(self, a: Value) -> Value:
        return self.f.intrinsic("ceil", a)

    def trunc(self, a: Value) -> Value:
        return self.f.intrinsic("trunc", a)

    def round(self, a: Value) -> Value:
        """To the nearest integer, halves to even (the rounding mode is never changed)."""
        return self.f.intrinsic("rint", a)

    # ---- choice

    def less(self, a: Operand, b: Operand) -> Value:
        """a < b; false with a NaN."""
        return self.f.fcmp("olt", a, b)

    def greater(self, a: Operand, b: Operand) -> Value:
        return self.f.fcmp("ogt", a, b)

    def equal(self, a: Operand, b: Operand) -> Value:
        return self.f.fcmp("oeq", a, b)

    def is_nan(self, a: Value) -> Value:
        return self.f.fcmp("uno", a, a)

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        return self.f.select(condition, a, b)

    def at_most(self, a: Value, bound: float) -> Value:
        """min(a, bound) that lets NaN through."""
        return self.select(self.less(bound, a), bound, a)

    def at_least(self, a: Value, bound: float) -> Value:
        """max(a, bound) that lets NaN through."""
        return self.select(self.less(a, bound), bound, a)

    # ---- bits

    def bits(self, a: Value) -> Value:
        return self.f.bitcast(a, self.int_type(a))

    def from_bits(self, a: Value) -> Value:
        return self.f.bitcast(a, like(F32 if a.type.bits == 32 else F64, a.type))

    def int_type(self, a: Value) -> LType:
        """The integer type of a's width and lane size."""
        return like(I32 if a.type.bits == 32 else I64, a.type)

    def form(self, a: Value) -> tuple[int, int, float]:
        """(mantissa bits, exponent bias, rounding constant) of a's precision."""
        return _FORMS[a.type.bits]

    def nearest(self, a: Value, scale: float = 1.0) -> tuple[Value, Value]:
        """The integer nearest to a*scale, as a float and as an integer; |a*scale| below 2**22 (f32) or 2**51 (f64).

        Done with one addition, because baseline x86-64 can neither round nor convert vectors of this kind quickly.
        """
        magic = self.form(a)[2]
        shifted = self.add(a, magic) if scale == 1.0 else self.mad(a, scale, magic)
        return self.sub(shifted, magic), self.f.sub(self.bits(shifted), _magic_bits(a.type.bits))

    def from_small_int(self, i: Value) -> Value:
        """The float of an integer below 2**22 (2**51) in size."""
        magic = _FORMS[i.type.bits][2]
        return self.sub(self.from_bits(self.f.add(i, _magic_bits(i.type.bits))), magic)

    def power_of_two(self, i: Value) -> Value:
        """2**i for an integer i in the range of normal exponents."""
        digits, bias, _ = _FORMS[i.type.bits]
        return self.from_bits(self.f.shl(self.f.add(i, bias), digits))

    def scale(self, a: Value, i: Value) -> Value:
        """a * 2**i for 0.5 <= |a| <= 2 and any i that exp can need; overflow and gradual underflow round once."""
        if self.has_scale and a.type.lanes:
            exponent = i if i.type.bits == 32 else self.f.trunc(i, I32)
            return self.f.intrinsic("ldexp", a, exponent, overloads=[a.type, exponent.type])
        half = self.f.ashr(i, 1)
        return self.mul(self.mul(a, self.power_of_two(half)), self.power_of_two(self.f.sub(i, half)))

    # ---- polynomials

    def poly(self, x: Value, table: dict[int, tuple[float, ...]]) -> Value:
        """The polynomial of x's precision; as two interleaved chains when it is long, to halve the latency."""
        coefficients = table[x.type.bits]
        if len(coefficients) < 8:
            return self.horner(x, coefficients)
        square = self.mul(x, x)
        return self.mad(x, self.horner(square, coefficients[1::2]), self.horner(square, coefficients[0::2]))

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        total: Operand = const(x.type, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.mad(total, x, c)
        assert isinstance(total, Value)
        return total

    # ---- other widths of lane

    def widen(self, a: Value) -> Value:
        """f32 -> f64."""
        return self.f.fpext(a, F64)

    def narrow(self, a: Value) -> Value:
        """f64 -> f32."""
        return self.f.fptrunc(a, F32)

    # ---- the rare lanes

    def rare(self, condition: Value, usual: Value, name: str, *args: Value) -> Value:
        """`usual`, but the C library's double precision function `name` of `args` in the lanes where `condition` holds.

        Costs a test and a branch while no lane needs it.
        """
        f = self.f
        some = f.reduce("or", condition) if condition.type.lanes else condition
        slow, done, before = f.block("rare"), f.block("usual"), f.current
        weights = f.module.metadata('!{!"branch_weights", i32 1, i32 2000}')
        f.cond_br(some, slow, done, f"!prof {weights}")
        f.place(slow)
        chosen = f.select(condition, self.library(name, *args), usual)
        arrival = f.current
        f.place(done)
        return f.phi(usual.type, [(usual, before), (chosen, arrival)])

    def library(self, name: str, *args: Value) -> Value:
        """The C library's double precision `name`, lane by lane."""
        return self.f.call(_lane_loop(self.f, name, args[0].type, len(args)), args, name)


def _magic_bits(bits: int) -> int:
    magic = _FORMS[bits][2]
    return int.from_bytes(struct.pack("<f" if bits == 32 else "<d", magic), "little")


def _lane_loop(f: Function, name: str, type: LType, count: int) -> Signature:
    """The module's function that applies the library's `name` to each lane of `type`."""
    symbol = f"weft_{name}_{type.suffix}"
    existing = f.module.functions.get(symbol)
    if existing is not None:
        return existing.signature
    library = f.module.declare(name, F64, [F64] * count)
    g = f.module.function(symbol, type, [(type, f"x{i}") for i in range(count)], internal=True, attrs="noinline")
    if not type.lanes:
        g.ret(_one_lane(g, library, g.params))
        return g.signature
    slots = [g.alloca(type.elem, type.lanes, 64) for _ in range(count)]
    for slot, argument in zip(slots, g.params, strict=True):
        g.store(argument, slot)
    with g.loop(0, const(I64, type.lanes), trip_at_least_one=True) as loop:
        places = [g.gep(type.elem, slot, loop.index) for slot in slots]
        g.store(_one_lane(g, library, [g.load(type.elem, place) for place in places]), places[0])
    g.ret(g.load(type, slots[0]))
    return g.signature


def _one_lane(g: Function, library: Signature, args: Sequence[Value]) -> Value:
    if args[0].type is F64:
        return g.call(library, args)
    return g.fptrunc(g.call(library, [g.fpext(a, F64) for a in args]), F32)
