"""Nodes by the name of an operator, as in TorchScript's graphs: the types of the arguments choose the overload."""

from __future__ import annotations

import ast
from typing import Any

from weft.ir.graph import Operand
from weft.jit.errors import CompileError
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.matching import call_any
from weft.jit.script.frontend.values import Simple, SugaredValue, TupleValue, constant
from weft.ops.op import OPS, PACKETS, Op
from weft.ops.schema import Argument
from weft.support.errors import ArgumentError
from weft.types import dtype as dt
from weft.types import tensor_type as tt
from weft.types.tensor_type import TensorType

# TorchScript's names of what the language calls otherwise.
_NAMES = {
    "aten::__getitem__": "getitem", "aten::_set_item": "setitem", "aten::__contains__": "contains", "aten::__is__":
    "is_", "aten::__isnot__": "is_not",
    "aten::__not__": "not_", "aten::Int": "int", "aten::Float": "float", "aten::Bool": "bool", "aten::str": "str",
    "aten::floordiv": "floordiv",
    "aten::div": "truediv", "aten::remainder": "mod", "aten::IntImplicit": "int", "aten::FloatImplicit": "float",
    "aten::Complex": "complex",
    "aten::__and__": "bitwise_and", "aten::__or__": "bitwise_or", "aten::__xor__": "bitwise_xor",
    "aten::__range_length": "range_length",
}  # fmt: skip
_DTYPES = dict(enumerate((
    dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64, dt.float16, dt.float32, dt.float64,
))) | {9: dt.complex64, 10: dt.complex128, 11: dt.bool_, 15: dt.bfloat16}
_ROW_MAJOR = (0, 1)  # contiguous_format, preserve_format
_ON_TENSORS = {
    "aten::__and__": "aten::bitwise_and",
    "aten::__or__": "aten::bitwise_or",
    "aten::__xor__": "aten::bitwise_xor",
}


def call_by_name(ctx: Context, at: ast.AST, kind: str, args: list[Simple]) -> list[Simple]:
    """The results of an operator: the tensors' if a tensor is among the arguments, else the language's. Raises
    ArgumentError.
    """
    name = kind
    on_tensors = any(isinstance(a.type, TensorType) for a in args)
    base = name.partition("::")[2]
    if name not in _ON_TENSORS if on_tensors and name not in PACKETS else not on_tensors:
        own = f"prim::{_NAMES.get(name, base)}"
        if len(args) == 1 and f"{own}_of" in OPS:  # `max(items)`
            own = f"{own}_of"
        results = _language(ctx, at, own, args) if own in OPS else None
        if results is not None:
            return results
    name = _ON_TENSORS.get(name, name)
    in_place = name.endswith("_") and name not in PACKETS
    candidates = PACKETS.get(name[:-1] if in_place else name, [])
    if not candidates:
        raise ArgumentError(f"no operator {kind}")
    problem = ""
    for op in _ordered(candidates, args):
        fitted = _fitted(op, args)
        if fitted is None:
            problem = problem or f"{base}() takes {len(op.schema.arguments)} arguments, not {len(args)}: {op.schema}"
            continue
        try:
            return spread(ctx, at, call_any(ctx, at, base, [op], fitted[0], fitted[1], in_place))
        except CompileError as error:
            problem = problem or str(error).split("\n  File")[0]
    raise ArgumentError(problem)


def _fitted(op: Op, args: list[Simple]) -> tuple[list[Simple], dict[str, Simple]] | None:
    """The arguments that stand in order and those with names. TorchScript gives a layout and whether memory is pinned
    too, and a memory format at the end.
    """
    arguments = op.schema.arguments
    limit = sum(not a.keyword_only for a in arguments)
    names = [a.name for a in arguments[limit:]]
    count, rest = min(limit, len(args)), args[limit:]
    if names[:2] == ["dtype", "device"]:
        required = sum(not a.has_default for a in arguments[:limit])
        at = next((n for n in range(limit, required - 1, -1) if len(args) - n == len(names) + 2), None)
        if at is not None:
            dtype, _, device, _, *more = args[at:]
            count, rest = at, [dtype, device, *more]
    elif len(args) == len(arguments) + 1 and args[-1].operand in (None, *_ROW_MAJOR):
        rest = rest[:-1]
    if len(rest) > len(names):
        return None
    placed = [_with_dtype(a, v) for a, v in zip(arguments, args[:count], strict=False)]
    named = zip(arguments[limit:], rest, strict=False)
    return placed, {a.name: _with_dtype(a, v) for a, v in named}


def _with_dtype(argument: Argument, value: Simple) -> Simple:
    """A dtype that TorchScript writes as a number."""
    if argument.kind != "ScalarType" or type(value.operand) is not int or value.operand not in _DTYPES:
        return value
    return constant(_DTYPES[value.operand], tt.DTYPE)


def make_tensor(ctx: Context, at: ast.AST, args: list[Simple]) -> Simple:
    """`aten::tensor(data, dtype, device, requires_grad)`."""
    data, dtype, _, requires_grad = args
    named: dict[str, Operand] = {"dtype": _DTYPES.get(dtype.operand) if type(dtype.operand) is int else dtype.operand}
    named["requires_grad"] = requires_grad.operand
    keywords = {n: v for n, v in named.items() if v is not None and v is not False}
    operands = ("weft.tensor", (data.operand, *keywords.values()), tuple(keywords), str(tt.TENSOR))
    return ctx.emit(ctx.op("prim::CallBuiltin"), operands, at, (tt.TENSOR,))


def _language(ctx: Context, at: ast.AST, own: str, args: list[Simple]) -> list[Simple] | None:
    op = OPS[own]
    if op.schema.arguments and op.schema.arguments[0].name == "elements":  # they are given one by one
        elements = tuple(a.operand for a in args)
        args = args if any(isinstance(a, tuple) for a in elements) else [Simple(elements, tt.ANY)]
    if len(args) > len(op.schema.arguments):
        return None
    operands = [a.operand for a in args] + [a.default for a in op.schema.arguments[len(args) :]]
    try:
        result = ctx.emit(op, tuple(operands), at)
    except CompileError:
        return None
    return [] if not op.schema.returns else [result]


def _ordered(candidates: Any, args: list[Simple]) -> list[Any]:
    """Overloads with as many arguments as are given first."""
    return sorted(candidates, key=lambda op: len(op.schema.arguments) != len(args))


def spread(ctx: Context, node: ast.AST, value: SugaredValue) -> list[Simple]:
    """The values of a result, one by one."""
    if isinstance(value, TupleValue):
        return [v.as_value(ctx, node) for v in value.items]
    simple = value.as_value(ctx, node)
    return [] if simple.type is tt.NONE else [simple]
