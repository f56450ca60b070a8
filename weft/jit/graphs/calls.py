"""Nodes by the name of an operator, as in TorchScript's graphs: the types of the arguments choose the overload."""

from __future__ import annotations

import ast
from typing import Any

from weft.jit.errors import CompileError
from weft.jit.frontend.context import Context
from weft.jit.frontend.matching import call_any
from weft.jit.frontend.values import Simple, SugaredValue, TupleValue
from weft.ops.op import OPS, PACKETS
from weft.support.errors import ArgumentError
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
        found = _language(ctx, at, own, args) if own in OPS else None
        if found is not None:
            return found
    name = _ON_TENSORS.get(name, name)
    in_place = name.endswith("_") and name not in PACKETS
    candidates = PACKETS.get(name[:-1] if in_place else name, [])
    if not candidates:
        raise ArgumentError(f"no operator {kind}")
    problem = ""
    for op in _ordered(candidates, args):
        if len(args) > len(op.schema.arguments):
            problem = problem or f"{base}() takes {len(op.schema.arguments)} arguments, not {len(args)}: {op.schema}"
            continue
        limit = sum(not a.keyword_only for a in op.schema.arguments)
        named = {a.name: v for a, v in zip(op.schema.arguments[limit:], args[limit:], strict=False)}
        try:
            return spread(ctx, at, call_any(ctx, at, base, [op], args[:limit], named, in_place))
        except CompileError as error:
            problem = problem or str(error).split("\n  File")[0]
    raise ArgumentError(problem)


def _language(ctx: Context, at: ast.AST, own: str, args: list[Simple]) -> list[Simple] | None:
    op = OPS[own]
    if op.schema.arguments and op.schema.arguments[0].name == "elements":  # they are given one by one
        given = tuple(a.operand for a in args)
        args = args if any(isinstance(a, tuple) for a in given) else [Simple(given, tt.ANY)]
    if len(args) > len(op.schema.arguments):
        return None
    operands = [a.operand for a in args] + [a.default for a in op.schema.arguments[len(args) :]]
    try:
        made = ctx.emit(op, tuple(operands), at)
    except CompileError:
        return None
    return [] if not op.schema.returns else [made]


def _ordered(candidates: Any, args: list[Simple]) -> list[Any]:
    """Overloads with as many arguments as are given first."""
    return sorted(candidates, key=lambda op: len(op.schema.arguments) != len(args))


def spread(ctx: Context, node: ast.AST, value: SugaredValue) -> list[Simple]:
    """The values of a result, one by one."""
    if isinstance(value, TupleValue):
        return [v.as_value(ctx, node) for v in value.items]
    simple = value.as_value(ctx, node)
    return [] if simple.type is tt.NONE else [simple]
