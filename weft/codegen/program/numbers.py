"""Arithmetic on numbers (a learning rate, a step count) as scalar code of the program: pointwise bodies over doubles
and 64-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.codegen.emit import F64, I1, I64, Function, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.program.sizes import divide
from weft.ir.graph import Node, Operand, Value
from weft.plan.numbers import LIBRARY, NUMBER_DTYPES, number_operands
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.dtype import DType
from weft.types.tensor_type import BOOL

_TYPES = {dt.float64: F64, dt.int64: I64, dt.bool_: I1}
_DTYPES = {t: d for d, t in _TYPES.items()}


class NumberScalar:
    """The part of the scalar protocol that `NumberTypes` (plan/numbers.py) admits, on LLVM scalars."""

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
        return divide(self._f, "floordiv", x, y)

    def remainder(self, x: Scalar, y: Scalar) -> Scalar:
        return divide(self._f, "mod", x, y)

    def neg(self, x: Scalar) -> Scalar:
        return self._f.fneg(x) if x.type is F64 else self._f.sub(0, x)

    def abs(self, x: Scalar) -> Scalar:
        if x.type is F64:
            return self._f.intrinsic("fabs", x)
        return self._f.select(self._f.icmp("slt", x, 0), self._f.sub(0, x), x)

    def sqrt(self, x: Scalar) -> Scalar:
        return self._f.intrinsic("sqrt", x)

    def rsqrt(self, x: Scalar) -> Scalar:
        return self._f.fdiv(1.0, self.sqrt(x))

    def floor(self, x: Scalar) -> Scalar:
        return self._f.intrinsic("floor", x)

    def ceil(self, x: Scalar) -> Scalar:
        return self._f.intrinsic("ceil", x)

    def trunc(self, x: Scalar) -> Scalar:
        return self._f.intrinsic("trunc", x)

    def __getattr__(self, name: str) -> Callable[..., Scalar]:
        if name not in LIBRARY:
            raise AttributeError(name)
        return lambda *args: self._f.call(self._f.module.declare(name, F64, [F64] * len(args)), args, name)

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


def emit_number(node: Node, f: Function, read: Callable[[Value], Scalar], size: Callable[[Expr], Scalar]) -> Scalar:
    """The node's result as a double or an i64 (a bool is 0 or 1). `read` loads a number Value, `size` a symbolic
    integer, in these types."""
    handler = NumberScalar(f)

    def operand(a: Operand) -> Scalar:
        if isinstance(a, Value):
            x = read(a)
            return f.icmp("ne", x, 0) if a.type is BOOL else x
        if isinstance(a, Expr):
            return size(a)
        return const(I1 if type(a) is bool else F64 if type(a) is float else I64, a)

    assert node.op.scalar is not None
    result = node.op.scalar(handler, *number_operands(node, operand, handler.cast))
    result = handler.cast(result, NUMBER_DTYPES[node.output.type])  # type: ignore[index]
    return f.zext(result, I64) if result.type is I1 else result
