"""Numbers (a learning rate, a step count) in a program: which values are numbers, and which arithmetic on them
native code does itself.

The answer comes from the entry: its body, run over `NumberTypes`, says which operations on which dtypes it is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ir.builder import type_of_operand
from weft.ir.graph import Node, Operand, Value
from weft.ops import compute
from weft.ops.rules import Pointwise
from weft.passes.effects import KEPT
from weft.support.errors import WeftError
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.dtype import DType
from weft.types.numbers import MATH
from weft.types.tensor_type import BOOL, FLOAT, INT

KINDS = {FLOAT: "float", INT: "int", BOOL: "bool"}
NUMBER_DTYPES = {FLOAT: dt.float64, INT: dt.int64, BOOL: dt.bool_}
# Of doubles; the C library computes these as Python's own module math does (which has exp2 from Python 3.11 on).
LIBRARY = frozenset(("exp2", *(name for name, operation in MATH.items() if operation.in_c)))
_OF_DOUBLES = LIBRARY | {"rsqrt", "floor", "ceil", "trunc", "div"}
_OF_INTEGERS = frozenset(("floordiv", "remainder", "bit_and", "bit_or", "bit_xor", "bit_not"))
_OF_ANY = frozenset(("add", "sub", "mul", "neg", "abs", "maximum", "minimum", "conj", "real"))
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


class _NotNative(Exception):
    """An operation, or a dtype, that arithmetic on numbers has no native code for."""


class NumberTypes:
    """The scalar protocol over dtypes alone: an operation on dtypes is the dtype of its result.
    What native code does not do is refused."""

    def const(self, value: Any, dtype: DType) -> DType:
        return self.cast(dtype, dtype)

    def dtype(self, x: DType) -> DType:
        return x

    def cast(self, x: DType, dtype: DType) -> DType:
        if dtype not in NUMBER_DTYPES.values():
            raise _NotNative
        return dtype

    def where(self, condition: DType, x: DType, y: DType) -> DType:
        return _joint(x, y) if condition is dt.bool_ else _refuse()

    def __getattr__(self, name: str) -> Callable[..., DType]:
        return lambda *operands: _result(name, _joint(*operands))


def _refuse() -> DType:
    raise _NotNative


def _joint(first: DType, *rest: DType) -> DType:
    return first if all(other is first for other in rest) else _refuse()


def _result(name: str, dtype: DType) -> DType:
    if name in _COMPARISONS:
        return dt.bool_
    is_known = (
        name in _OF_ANY or (name in _OF_DOUBLES and dtype is dt.float64)
        or (name in _OF_INTEGERS and dtype is not dt.float64)
    )
    is_quotient = name in ("floordiv", "remainder")
    return dtype if is_known and not (is_quotient and dtype is not dt.int64) else _refuse()


def is_number(value: Value) -> bool:
    """Whether a Value is a number that fits into a word."""
    return value.type in KINDS


def is_native_number(node: Node) -> bool:
    """Whether a node computes a number from numbers in operations that native code has."""
    op = node.op
    if op.scalar is None or not isinstance(op.type, Pointwise) or len(node.outputs) != 1 or op.effect in KEPT:
        return False
    if any(isinstance(a, Value) and not is_number(a) for a in node.args) or not is_number(node.output):
        return False
    try:
        op.scalar(NumberTypes(), *number_operands(node, _operand_dtype, NumberTypes().cast))
    except (_NotNative, WeftError):
        return False
    return True


def number_operands(node: Node, read: Callable[[Operand], Any], cast: Callable[[Any, DType], Any]) -> list[Any]:
    """What the body of a node on numbers is given: operands read and cast to the dtype in which it runs."""
    types = tuple([type_of_operand(a) for a in node.args])
    return compute.number_operands(node.op, node.args, types, read, lambda a, dtype: cast(read(a), dtype))


def _operand_dtype(operand: Operand) -> DType:
    if isinstance(operand, Value):
        return NUMBER_DTYPES[operand.type]  # type: ignore[index]
    if isinstance(operand, (bool, Expr)):
        return dt.bool_ if isinstance(operand, bool) else dt.int64
    return dt.float64 if isinstance(operand, float) else dt.int64 if isinstance(operand, int) else _refuse()
