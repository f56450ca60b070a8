"""Nodes by the name of an operator, as in TorchScript's graphs: the types of the arguments choose the overload."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

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
from weft.types.tensor_type import DictType, ListType, TensorType

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
_ROW_MAJOR = (0, 1)  # contiguous_format, preserve_format
_ON_TENSORS = {
    "aten::__and__": "aten::bitwise_and",
    "aten::__or__": "aten::bitwise_or",
    "aten::__xor__": "aten::bitwise_xor",
}


def call_by_name(
    ctx: Context, at: ast.AST, kind: str, args: Sequence[SugaredValue], kwargs: Mapping[str, SugaredValue] | None = None
) -> list[Simple]:
    """The results of an operator: the tensors' if a tensor is among the arguments, else the language's. Raises
    ArgumentError.
    """
    name, kwargs = kind, kwargs or {}
    on_tensors = any(isinstance(a, Simple) and isinstance(a.type, TensorType) for a in args)
    base = name.partition("::")[2]
    plain = name not in _ON_TENSORS if on_tensors and name not in PACKETS else not on_tensors
    if (plain or _on_container(args)) and not kwargs:
        results = _language(ctx, at, base, name, args)
        if results is not None:
            return results
    name = _ON_TENSORS.get(name, name)
    in_place = name.endswith("_") and name not in PACKETS
    candidates = PACKETS.get(name[:-1] if in_place else name, [])
    if not candidates:
        raise ArgumentError(f"no operator {kind}")
    problem = ""
    for op in sorted(candidates, key=lambda op: _distance(op, args, len(args) + len(kwargs))):
        fitted = _fitted(ctx, at, op, args, kwargs)
        if fitted is None:
            wanted = len(op.schema.arguments)
            problem = problem or f"{base}() takes {wanted} arguments, not {len(args) + len(kwargs)}: {op.schema}"
            continue
        try:
            return spread(ctx, at, call_any(ctx, at, base, [op], fitted[0], fitted[1], in_place))
        except CompileError as error:
            problem = problem or str(error).split("\n  File")[0]
    raise ArgumentError(problem)


def _on_container(args: Sequence[SugaredValue]) -> bool:
    """Whether the first argument is a list, dict or text, whose operators are the language's."""
    first = args[0] if args else None
    return isinstance(first, Simple) and (isinstance(first.type, (ListType, DictType)) or first.type is tt.STR)


def _fitted(
    ctx: Context, at: ast.AST, op: Op, args: Sequence[SugaredValue], kwargs: Mapping[str, SugaredValue]
) -> tuple[list[SugaredValue], dict[str, SugaredValue]] | None:
    """The arguments that stand in order and those with names. TorchScript gives a layout and whether memory is pinned
    too, and a memory format at the end.
    """
    arguments = op.schema.arguments
    limit = sum(not a.keyword_only for a in arguments)
    names = [a.name for a in arguments[limit:]]
    count, rest = min(limit, len(args)), list(args[limit:])
    if names[:2] == ["dtype", "device"] and not kwargs:
        required = sum(not a.has_default for a in arguments[:limit])
        place = next((n for n in range(limit, required - 1, -1) if len(args) - n == len(names) + 2), None)
        if place is not None:
            dtype, _, device, _, *more = args[place:]
            count, rest = place, [dtype, device, *more]
    elif len(args) == len(arguments) + 1 and _immediate(args[-1]) in (None, *_ROW_MAJOR):
        rest = rest[:-1]
    if len(rest) > len(names):
        return None
    by_name = {a.name: a for a in arguments}
    placed = [_with_dtype(ctx, at, a, v) for a, v in zip(arguments, args[:count], strict=False)]
    named = {a.name: _with_dtype(ctx, at, a, v) for a, v in zip(arguments[limit:], rest, strict=False)}
    for name, value in kwargs.items():
        if name in by_name:
            named[name] = _with_dtype(ctx, at, by_name[name], value)
        elif name not in _SAYS_NOTHING or _immediate(value) not in (None, False, *_ROW_MAJOR):
            return None
    return placed, named


_SAYS_NOTHING = ("layout", "pin_memory", "memory_format", "non_blocking", "device")  # where memory is of one kind
_NO_IMMEDIATE = object()


def _immediate(value: SugaredValue) -> object:
    """The number, text or None that an argument is; something else for a value of the graph."""
    return value.operand if isinstance(value, Simple) and value.is_constant else _NO_IMMEDIATE


def _with_dtype(ctx: Context, at: ast.AST, argument: Argument, value: SugaredValue) -> SugaredValue:
    return as_dtype(ctx, at, value) if argument.kind == "ScalarType" and isinstance(value, Simple) else value


def as_dtype(ctx: Context, at: ast.AST, value: Simple) -> Simple:
    """A dtype that TorchScript has as a number; other values as they are."""
    number = _immediate(value)
    if type(number) is int and number in dt.BY_NUMBER:
        return constant(dt.BY_NUMBER[number], tt.DTYPE)
    if value.type is tt.INT:
        return ctx.prim("dtype_of_number", at, value)
    return ctx.prim("dtype_of_optional_number", at, value) if value.type is tt.optional(tt.INT) else value


def make_tensor(ctx: Context, at: ast.AST, args: list[Simple]) -> Simple:
    """`aten::tensor(data, dtype, device, requires_grad)`."""
    data, dtype, _, requires_grad = args
    named: dict[str, Operand] = {"dtype": as_dtype(ctx, at, dtype).operand, "requires_grad": requires_grad.operand}
    keywords = {n: v for n, v in named.items() if v is not None and v is not False}
    operands = ("weft.tensor", (data.operand, *keywords.values()), tuple(keywords), str(tt.TENSOR))
    return ctx.emit(ctx.op("prim::CallBuiltin"), operands, at, (tt.TENSOR,))


def _language(
    ctx: Context, at: ast.AST, base: str, name: str, args: Sequence[SugaredValue]
) -> list[Simple] | None:
    """The results of the language's operator of this name, for numbers and containers; None where there is none that
    takes the arguments.
    """
    own = f"prim::{_NAMES.get(name, base)}"
    if len(args) == 1 and f"{own}_of" in OPS:  # `max(items)`
        own = f"{own}_of"
    if own not in OPS:
        own = f"math::{base}"
    if own not in OPS:
        return None
    op = OPS[own]
    values = [a.as_value(ctx, at) for a in args]
    if op.schema.arguments and op.schema.arguments[0].name == "elements":  # they are given one by one
        elements = tuple(a.operand for a in values)
        values = values if any(isinstance(a, tuple) for a in elements) else [Simple(elements, tt.ANY)]
    if len(values) > len(op.schema.arguments):
        return None
    missing = op.schema.arguments[len(values) :]
    if not all(a.has_default or a.name in _OF_SLICES for a in missing):
        return None
    operands = [a.operand for a in values] + [a.default if a.has_default else _OF_SLICES[a.name] for a in missing]
    try:
        result = ctx.emit(op, tuple(operands), at)
    except CompileError:
        return None
    return [] if not op.schema.returns else [result]


_OF_SLICES = {"start": None, "stop": None, "step": 1}


def _distance(op: Op, args: Sequence[SugaredValue], count: int) -> tuple[bool, bool, bool]:
    """What speaks against an overload: fewer arguments than are given, numbers where it has tensors, more arguments."""
    arguments = op.schema.arguments
    converts = any(
        a.kind == "Tensor" and isinstance(v, Simple) and v.type in (tt.INT, tt.FLOAT, tt.BOOL)
        for a, v in zip(arguments, args, strict=False)
    )
    return len(arguments) < count, converts, len(arguments) != count


def spread(ctx: Context, node: ast.AST, value: SugaredValue) -> list[Simple]:
    """The values of a result, one by one."""
    if isinstance(value, TupleValue):
        return [v.as_value(ctx, node) for v in value.items]
    simple = value.as_value(ctx, node)
    return [] if simple.type is tt.NONE else [simple]
