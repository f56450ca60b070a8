"""Arithmetic on numbers (a learning rate, a step count) as scalar code of the program: pointwise bodies over doubles and 64-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.codegen.emit import F64, I1, I64, EmitError, Function, Module, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.program.dims import divide
from weft.codegen.program.foreign import number_compute_dtype
from weft.ir.builder import type_of_operand
from weft.ir.graph import Node, Operand, Value
from weft.ops.compute import is_default
from weft.ops.rules import Pointwise
from weft.passes.effects import KEPT
from weft.support.errors import WeftError
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.dtype import DType
from weft.types.tensor_type import BOOL, FLOAT, INT

KINDS = {FLOAT: "float", INT: "int", BOOL: "bool"}
_TYPES = {dt.float64: F64, dt.int64: I64, dt.bool_: I1}
_DTYPES = {t: d for d, t in _TYPES.items()}
# The C library computes these as Python's own arithmetic and math module do.
_LIBRARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "erf", "erfc",
)


class NumberScalar:
    """A part of the scalar protocol on LLVM scalars. What is missing makes the node a foreign step."""

    def __init__(self, function: Function) -> None:
        self._f = function

    def const(self, value: Any, dtype: DType) -> Scalar:
        return const(_TYPES[dtype], value)

    def dtype(self, x: Scalar) -> DType:
        return _DTYPES[x.type]

    def cast(self, x: Scalar, dtype: DType) -> Scalar:
        f, to = self._f, _TYPES[dtype]
        if x.type is to:
            return x
        if to is I1:
            return f.fcmp("une", x, 0.0) if x.type is F64 else f.icmp("ne", x, 0)
        if to is F64:
            return f.uitofp(x, F64) if x.type is I1 else f.sitofp(x, F64)
        return f.zext(x, I64) if x.type is I1 else f.fptosi(x, I64)

    def _arithmetic(self, name: str, x: Scalar, y: Scalar) -> Scalar:
        return getattr(self._f, ("f" if x.type is F64 else "") + name)(x, y)  # type: ignore[no-any-return]

    def add(self, x: Scalar, y: Scalar) -> Scalar:
        return self._arithmetic("add", x, y)

    def sub(self, x: Scalar, y: Scalar) -> Scalar:
        return self._arithmetic("sub", x, y)

    def mul(self, x: Scalar, y: Scalar) -> Scalar:
        return self._arithmetic("mul", x, y)

    def div(self, x: Scalar, y: Scalar) -> Scalar:
        return self._f.fdiv(x, y)

    def floordiv(self, x: Scalar, y: Scalar) -> Scalar:
        return divide(self._f, "floordiv", _integer(x), _integer(y))

    def remainder(self, x: Scalar, y: Scalar) -> Scalar:
        return divide(self._f, "mod", _integer(x), _integer(y))

    def neg(self, x: Scalar) -> Scalar:
        return self._f.fneg(x) if x.type is F64 else self._f.sub(0, x)

    def abs(self, x: Scalar) -> Scalar:
        if x.type is F64:
            return self._f.intrinsic("fabs", x)
        return self._f.select(self._f.icmp("slt", x, 0), self._f.sub(0, x), x)

    def pow(self, x: Scalar, y: Scalar) -> Scalar:
        return self._library("pow", _double(x), _double(y))

    def sqrt(self, x: Scalar) -> Scalar:
        return self._f.intrinsic("sqrt", _double(x))

    def rsqrt(self, x: Scalar) -> Scalar:
        return self._f.fdiv(1.0, self.sqrt(x))

    def floor(self, x: Scalar) -> Scalar:
        return self._f.intrinsic("floor", _double(x))

    def ceil(self, x: Scalar) -> Scalar:
        return self._f.intrinsic("ceil", _double(x))

    def trunc(self, x: Scalar) -> Scalar:
        return self._f.intrinsic("trunc", _double(x))

    def _library(self, name: str, *args: Scalar) -> Scalar:
        callee = self._f.module.declare(name, F64, [F64] * len(args))
        return self._f.call(callee, args, name)

    def __getattr__(self, name: str) -> Callable[[Scalar], Scalar]:
        if name not in _LIBRARY:
            raise AttributeError(name)
        return lambda x: self._library(name, _double(x))

    def maximum(self, x: Scalar, y: Scalar) -> Scalar:
        return self._extremum("fmax", "sgt", x, y)

    def minimum(self, x: Scalar, y: Scalar) -> Scalar:
        return self._extremum("fmin", "slt", x, y)

    def _extremum(self, name: str, predicate: str, x: Scalar, y: Scalar) -> Scalar:
        f = self._f
        if x.type is not F64:
            return f.select(f.icmp(predicate, x, y), x, y)
        wins = f.fcmp("ogt" if name == "fmax" else "olt", x, y)
        return f.select(f.fcmp("uno", x, y), f.fadd(x, y), f.select(wins, x, y))

    def _compare(self, word: str, x: Scalar, y: Scalar) -> Scalar:
        if x.type is F64:
            return self._f.fcmp("une" if word == "ne" else "o" + word, x, y)
        prefix = "" if word in ("eq", "ne") else "u" if x.type is I1 else "s"
        return self._f.icmp(prefix + word, x, y)

    def eq(self, x: Scalar, y: Scalar) -> Scalar:
        return self._compare("eq", x, y)

    def ne(self, x: Scalar, y: Scalar) -> Scalar:
        return self._compare("ne", x, y)

    def lt(self, x: Scalar, y: Scalar) -> Scalar:
        return self._compare("lt", x, y)

    def le(self, x: Scalar, y: Scalar) -> Scalar:
        return self._compare("le", x, y)

    def gt(self, x: Scalar, y: Scalar) -> Scalar:
        return self._compare("gt", x, y)

    def ge(self, x: Scalar, y: Scalar) -> Scalar:
        return self._compare("ge", x, y)

    def where(self, condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
        return self._f.select(condition, x, y)

    def bit_and(self, x: Scalar, y: Scalar) -> Scalar:
        return self._f.and_(x, y)

    def bit_or(self, x: Scalar, y: Scalar) -> Scalar:
        return self._f.or_(x, y)

    def bit_xor(self, x: Scalar, y: Scalar) -> Scalar:
        return self._f.xor(x, y)

    def bit_not(self, x: Scalar) -> Scalar:
        return self._f.not_(x)

    def conj(self, x: Scalar) -> Scalar:
        return x

    def real(self, x: Scalar) -> Scalar:
        return x


def _double(x: Scalar) -> Scalar:
    if x.type is not F64:
        raise EmitError(f"number arithmetic: needs a double, got {x.type}")
    return x


def _integer(x: Scalar) -> Scalar:
    if x.type is not I64:
        raise EmitError(f"number arithmetic: needs an integer, got {x.type}")
    return x


def is_number(value: Value) -> bool:
    """Whether a Value is a number that fits into a word."""
    return value.type in KINDS


def can_emit_number(node: Node) -> bool:
    """Whether `emit_number` knows the node: tried on a function that is thrown away."""
    if node.op.scalar is None or not isinstance(node.op.type, Pointwise) or len(node.outputs) != 1 or node.op.effect in KEPT:
        return False
    if any(isinstance(a, Value) and not is_number(a) for a in node.args) or not is_number(node.output):
        return False
    trial = Module().function("trial", params=[(F64, "x"), (I64, "n")])
    double, integer = trial.params
    try:
        emit_number(node, trial, lambda v: double if v.type is FLOAT else integer, lambda d: integer)
    except (AttributeError, EmitError, KeyError, TypeError, WeftError):
        return False
    return True


def emit_number(node: Node, f: Function, read: Callable[[Value], Scalar], size: Callable[[Expr], Scalar]) -> Scalar:
    """The node's result as a double or an i64 (a bool is 0 or 1). `read` loads a number Value, `size` a symbolic integer, in these types."""
    rule, schema = node.op.type, node.op.schema
    assert isinstance(rule, Pointwise) and node.op.scalar is not None
    handler = NumberScalar(f)
    compute = number_compute_dtype(rule, tuple(type_of_operand(a) for a in node.args))

    def operand(a: Operand, keeps: bool) -> Scalar:
        if isinstance(a, Value):
            x = read(a)
            x = f.icmp("ne", x, 0) if a.type is BOOL else x
        elif isinstance(a, Expr):
            x = size(a)
        else:
            x = const(I1 if type(a) is bool else F64 if type(a) is float else I64, a)
        return x if keeps else handler.cast(x, compute)

    operands: list[Any] = []
    for argument, a in zip(schema.arguments, node.args, strict=True):
        if argument.kind == "Scalar" and is_default(a, argument.default):
            operands.append(None)
        elif argument.kind in ("Tensor", "Scalar"):
            operands.append(operand(a, argument.name in rule.keep))
        else:
            operands.append(a)
    result = node.op.scalar(handler, *operands)
    wanted = {FLOAT: dt.float64, INT: dt.int64, BOOL: dt.bool_}[node.output.type]  # type: ignore[index]
    result = handler.cast(result, wanted)
    return f.zext(result, I64) if result.type is I1 else result
