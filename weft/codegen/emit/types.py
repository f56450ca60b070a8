"""Types, values and constants of the LLVM text that weft emits.

Types are interned, so `a.type is b.type` is the equality test. A constant `Value` carries its Python number in `const`
(a splat vector carries the number of every lane), which is what the builder folds with.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple


class EmitError(TypeError):
    """An instruction was asked for with operands that LLVM would refuse; the message names both types."""


class LType:
    """One LLVM type. `kind` is "int", "float", "ptr" or "void"; `lanes` is 0 for a scalar;
    `elem` is the lane type."""

    __slots__ = ("_vectors", "bits", "elem", "kind", "lanes", "suffix", "text")

    def __init__(self, text: str, kind: str, bits: int, suffix: str, lanes: int = 0, elem: LType | None = None) -> None:
        self.text, self.kind, self.bits, self.lanes, self.suffix = text, kind, bits, lanes, suffix
        self.elem: LType = self if elem is None else elem
        self._vectors: dict[int, LType] = {}

    @property
    def bytes(self) -> int:
        """Bytes of one lane."""
        return (self.bits + 7) // 8

    def __repr__(self) -> str:
        return self.text


I1 = LType("i1", "int", 1, "i1")
I8 = LType("i8", "int", 8, "i8")
I16 = LType("i16", "int", 16, "i16")
I32 = LType("i32", "int", 32, "i32")
I64 = LType("i64", "int", 64, "i64")
F16 = LType("half", "float", 16, "f16")
BF16 = LType("bfloat", "float", 16, "bf16")
F32 = LType("float", "float", 32, "f32")
F64 = LType("double", "float", 64, "f64")
PTR = LType("ptr", "ptr", 64, "p0")
VOID = LType("void", "void", 0, "isVoid")


def vec(elem: LType, lanes: int) -> LType:
    """The vector type `<lanes x elem>`; one lane or fewer gives `elem` itself, so that scalar code
    is the width-1 case."""
    if lanes <= 1:
        return elem
    interned = elem._vectors.get(lanes)
    if interned is not None:
        return interned
    if elem.lanes or elem.kind not in ("int", "float", "ptr"):
        raise EmitError(f"vec: lanes must be scalars, not {elem}")
    vector = LType(f"<{lanes} x {elem.text}>", elem.kind, elem.bits, f"v{lanes}{elem.suffix}", lanes, elem)
    return elem._vectors.setdefault(lanes, vector)


def like(elem: LType, shape: LType) -> LType:
    """`elem` with as many lanes as `shape` has."""
    return vec(elem, shape.lanes) if shape.lanes else elem


class Value:
    """An operand: a register, an argument, a global or a constant."""

    __slots__ = ("const", "text", "type")

    def __init__(self, type: LType, text: str, const: int | float | None = None) -> None:
        self.type, self.text, self.const = type, text, const

    def __repr__(self) -> str:
        return f"{self.type.text} {self.text}"


class Signature(NamedTuple):
    """What a call must know of a function. `name` has no @."""

    name: str
    result: LType
    params: tuple[LType, ...]
    varargs: bool = False


# mantissa bits including the hidden one, exponent of the smallest step, exponent of the first overflow
_FLOAT_FORMS = {F16: (11, -24, 16), BF16: (8, -133, 128), F32: (24, -149, 128), F64: (53, -1074, 1024)}
_FLOAT_BITS = struct.Struct("<d").pack
_CONSTANTS: dict[tuple[LType, float | bytes], Value] = {}


def round_to(type: LType, value: float) -> float:
    """`value` rounded once, half to even, to the nearest number of a floating point type;
    overflow gives an infinity."""
    value = float(value)
    if type is F64 or value == 0.0 or not math.isfinite(value):
        return value
    digits, smallest, top = _FLOAT_FORMS[type]
    if math.frexp(value)[1] > top:
        return math.copysign(math.inf, value)
    step = max(math.frexp(value)[1] - digits, smallest)
    rounded = math.ldexp(round(math.ldexp(value, -step)), step)
    if math.frexp(rounded)[1] > top:  # rounding up reached the next power of two
        return math.copysign(math.inf, value)
    return math.copysign(rounded, value)


def float_text(type: LType, value: float) -> str:
    """The exact hexadecimal spelling of a number of `type` (rounded to it first)."""
    value = round_to(type, value)
    if type is F16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if type is BF16:
        return f"0xR{struct.unpack('<I', struct.pack('<f', value))[0] >> 16:04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def wrap(type: LType, value: int) -> int:
    """The integer that `type` holds for `value`: signed, two's complement; i1 holds 0 or 1."""
    bits = type.bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def _scalar_text(elem: LType, value: int | float) -> str:
    if elem.kind == "float":
        return float_text(elem, value)
    return ("false", "true")[int(value)] if elem is I1 else str(value)


def const(type: LType, value: int | float) -> Value:
    """The number `value` as a constant of `type`, in every lane if that is a vector type.
    NaN and infinities are allowed for floats."""
    kind = type.kind
    # A float's key is its bits, because 0.0 == -0.0 and NaN != NaN.
    key: tuple[LType, float | bytes] = (type, _FLOAT_BITS(value) if kind == "float" else value)
    constant = _CONSTANTS.get(key)
    if constant is None:
        if kind not in ("int", "float") or (kind == "int" and value != int(value)):
            raise EmitError(f"const: {value!r} is no constant of type {type}")
        constant = _CONSTANTS[key] = _make_const(type, value if kind == "float" else wrap(type.elem, int(value)))
    return constant


def _make_const(type: LType, value: int | float) -> Value:
    elem = type.elem
    if elem.kind == "float":
        value = round_to(elem, value)
    text = _scalar_text(elem, value)
    if type.lanes:
        is_zero = value == 0 and math.copysign(1.0, value) > 0
        text = "zeroinitializer" if is_zero else f"splat ({elem.text} {text})"
    return Value(type, text, value)


def const_vector(elem: LType, values: Sequence[int | float]) -> Value:
    """A constant vector with the given lanes (a splat if they are all the same number)."""
    lanes = [const(elem, v) for v in values]
    if all(lane is lanes[0] for lane in lanes):
        return const(vec(elem, len(lanes)), values[0])
    return Value(vec(elem, len(lanes)), "<" + ", ".join(f"{elem.text} {lane.text}" for lane in lanes) + ">")


def iota(elem: LType, lanes: int) -> Value:
    """0, 1, 2, ... in the lanes of an integer or float vector."""
    return const_vector(elem, range(lanes))


def poison(type: LType) -> Value:
    """A value of `type` whose bits nobody reads."""
    return Value(type, "poison")


NULL = Value(PTR, "null")
