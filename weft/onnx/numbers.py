"""Numbers that a model computes, as the operations of catalogue/language/native.py: what the language says of an
operation on numbers is what nodes are written of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
import weft.onnx.exact as exact
from weft.catalogue.language.native import Body
from weft.onnx.outputs import Number
from weft.support.errors import Unsupported
from weft.types.dtype import DType

_FLOATS = {
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "erf": "Erf", "fabs": "Abs",
}  # fmt: skip
_EXACT: dict[str, Callable[..., Any]] = {
    "log1p": exact.log1p, "expm1": exact.expm1, "atan2": exact.atan2, "copysign": exact.copysign,
    "remainder": exact.nearest_remainder,
}  # fmt: skip
_SCALED = {"log2": 1 / math.log(2), "log10": 1 / math.log(10)}
_ROUNDED = {"floor": "Floor", "ceil": "Ceil", "roundeven": "Round"}
_OF_BOOLS = {"and_": "And", "or_": "Or", "xor": "Xor"}
_OF_INTS = {"and_": "BitwiseAnd", "or_": "BitwiseOr", "xor": "BitwiseXor"}


class ModelNumbers:
    """The operations, each on numbers of Python's and of the model (Number)."""

    def __init__(self, writer: Any) -> None:
        self.g = writer

    def _as(self, a: Any, dtype: DType) -> Any:
        return self.g.cast(self.g.number(a), dtype)

    def _made(self, name: str, *inputs: Any, **attributes: Any) -> Number:
        return self.g.as_number(self.g.op(name, *inputs, **attributes))  # type: ignore[no-any-return]

    def _kind(self, a: Any) -> DType:
        return self.g.dtype(a)  # type: ignore[no-any-return]

    # ---- arithmetic
    def arithmetic(self, name: str, a: Any, b: Any) -> Any:
        return self.g.arithmetic(name, a, b)

    def truediv(self, a: Any, b: Any) -> Any:
        return self.g.arithmetic("truediv", a, b)

    def floordiv(self, a: Any, b: Any) -> Any:
        return self.g.arithmetic("floordiv", a, b)

    def mod(self, a: Any, b: Any) -> Any:
        return self.g.arithmetic("mod", a, b)

    def power(self, a: Any, b: Any) -> Any:
        return self.g.arithmetic("pow", a, b)

    def int_power(self, a: Any, exponent: Any) -> Any:
        return self.g.arithmetic("int_pow", a, exponent)

    def compare(self, predicate: str, a: Any, b: Any) -> Any:
        return self.g.arithmetic(predicate, a, b)

    def extremum(self, predicate: str, a: Any, b: Any) -> Any:
        return self.g.arithmetic("min" if predicate == "lt" else "max", a, b)

    def neg(self, a: Any) -> Any:
        if isinstance(a, Number) and self._kind(a) is weft.float64:
            return self._made("Neg", self._as(a, weft.float64))  # (of 0.0 it is -0.0)
        return self.g.arithmetic("sub", 0, a)

    def pos(self, a: Any) -> Any:
        return self.g.arithmetic("add", a, 0)

    def abs(self, a: Any) -> Any:
        return self.g.arithmetic("max", a, self.neg(a))

    def shift(self, name: str, a: Any, b: Any) -> Any:
        if type(b) is not int or not 0 <= b < 63:
            raise Unsupported("a shift by a number of bits that the model finds")
        return self.g.arithmetic("mul" if name == "shl" else "floordiv", a, 1 << b)

    # ---- bits and truth
    def bits(self, name: str, a: Any, b: Any) -> Any:
        if not isinstance(a, Number) and not isinstance(b, Number):
            return {"and_": lambda: a & b, "or_": lambda: a | b, "xor": lambda: a ^ b}[name]()
        if self._kind(a) is weft.bool and self._kind(b) is weft.bool:
            return self._made(_OF_BOOLS[name], self.g.number(a), self.g.number(b))
        if self.g.opset < 18:
            raise Unsupported("bits of numbers that the model finds: opset 18 has them")
        return self._made(_OF_INTS[name], self._as(a, weft.int64), self._as(b, weft.int64))

    def invert(self, a: Any) -> Any:
        return self.g.arithmetic("sub", -1, a)

    def not_(self, a: Any) -> Any:
        return self._made("Not", self._as(a, weft.bool))

    # ---- kinds
    def to_int(self, a: Any) -> Any:
        return self.g.as_number(self._as(a, weft.int64)) if isinstance(a, Number) else int(a)

    def to_float(self, a: Any) -> Any:
        return self.g.as_number(self._as(a, weft.float64)) if isinstance(a, Number) else float(a)

    def to_bool(self, a: Any) -> Any:
        return self.g.as_number(self._as(a, weft.bool)) if isinstance(a, Number) else bool(a)

    def rounded(self, name: str, a: Any) -> Any:
        if self._kind(a) is not weft.float64:
            return self.pos(a)
        x = self._as(a, weft.float64)
        return self.g.as_number(self.g.cast(self.g.op(_ROUNDED[name], x) if name in _ROUNDED else x, weft.int64))

    def is_kind_of_float(self, name: str, a: Any) -> Any:
        x = self._as(a, weft.float64)
        if name != "finite":
            return self._made({"inf": "IsInf", "nan": "IsNaN"}[name], x)
        return self.not_(self.bits("or_", self.is_kind_of_float("inf", a), self.is_kind_of_float("nan", a)))

    # ---- functions of floats
    def library(self, name: str, *args: Any) -> Any:
        x = [self._as(a, weft.float64) for a in args]
        if name in _FLOATS:
            return self._made(_FLOATS[name], *x)
        if name in _SCALED:
            return self.g.arithmetic("mul", self._made("Log", *x), _SCALED[name])
        if name == "pow":
            return self._made("Pow", *x)
        if name in _EXACT:
            return self.g.as_number(_EXACT[name](self.g, *x))
        if name == "fmod":
            return self._made("Mod", *x, fmod=1)
        if name == "hypot":
            return self._made("Sqrt", self.g.op("Add", *(self.g.op("Mul", v, v) for v in x)))
        raise Unsupported(f"{name} of a number that the model finds: ONNX has no such operator")

    intrinsic = library

    def digits(self, a: Any, digits: Any) -> Any:
        """round(a, digits)."""
        if type(digits) is not int or not 0 <= digits <= 15:
            raise Unsupported(f"a number that the model finds, rounded to {digits} digits")
        if self._kind(a) is not weft.float64:
            return self.pos(a)
        return self.g.as_number(exact.rounded(self.g, self._as(a, weft.float64), digits))


def _of_library(name: str) -> Body:
    return lambda s, *x: s.library(name, *x)


# operations that machine code has no form of, by name
IN_MODELS: dict[str, Body] = {
    **{f"math::{name}": _of_library(name) for name in ("hypot", "remainder", "gamma", "lgamma")},
    "math::log": lambda s, x, base: (
        s.library("log", x) if base is None else s.truediv(s.library("log", x), s.library("log", base))
    ),
    "prim::round": lambda s, a, digits: s.rounded("roundeven", a) if digits is None else s.digits(a, digits),
}
