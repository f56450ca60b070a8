"""Matching a call against schemas: which overload its arguments' types fit, with the conversions that Python's callers
get too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.ir.graph import Operand
from weft.ir.kinds import KINDS, declared_types
from weft.ir.writing import writing_op
from weft.jit.script.annotations import written
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, TupleValue
from weft.ops.bind import positions_of
from weft.ops.op import PACKETS, Op
from weft.ops.schema import Argument
from weft.types.tensor_type import (
    BOOL,
    COMPLEX,
    DEVICE,
    DTYPE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)

Make = Callable[[], Operand]
Kwargs = Mapping[str, SugaredValue]
_NUMBERS = (INT, FLOAT, BOOL, COMPLEX, NUMBER)


class NoMatch(Exception):
    """Arguments that do not fit a schema, with the reason."""


def call_operator(
    ctx: Context, node: ast.AST, name: str, args: Sequence[SugaredValue], kwargs: Kwargs | None = None
) -> SugaredValue:
    """Call the overload of an operator (`aten::add`) that the arguments fit. Raises CompileError that lists the
    candidates.
    """
    return call_any(ctx, node, name.partition("::")[2], PACKETS[name], args, kwargs or {})


def call_any(
    ctx: Context,
    node: ast.AST,
    name: str,
    candidates: Sequence[Op],
    args: Sequence[SugaredValue],
    kwargs: Kwargs,
    in_place: bool = False,
) -> SugaredValue:
    """Call the first of some operators that the arguments fit as they are, else the first that they fit with a tensor
    made a number or a bool an integer; `in_place`: its form that writes the result into the first argument.
    """
    problems: list[str] = []
    fitting: tuple[Op, list[Make]] | None = None
    for op in candidates:
        try:
            makes = match(ctx, node, op, args, kwargs)
        except NoMatch as problem:
            problems.append(f"\n  {op.schema}\n      {problem}")
            continue
        converts = len(candidates) > 1 and _converts(op, args, kwargs)
        fitting = fitting or (op, makes)
        if not converts:
            fitting = op, makes
            break
    if fitting is not None:
        op, makes = fitting
        return result_of(ctx, node, writing_op(op) if in_place else op, tuple(make() for make in makes))
    if len(problems) == 1:
        ctx.fail(node, f"{name}(): {problems[0].split(chr(10))[-1].strip()}; expected {candidates[0].schema}")
    ctx.fail(node, f"{name}(): Arguments for call are not valid. Candidates:{''.join(problems)}")


def _converts(op: Op, args: Sequence[SugaredValue], kwargs: Kwargs) -> bool:
    """Whether a tensor is given where the operator takes a number, or a bool where it takes integers."""
    names = positions_of(op)
    pairs = [*zip(op.schema.arguments, args, strict=False)]
    pairs += [(op.schema.arguments[names[name]], value) for name, value in kwargs.items() if name in names]
    return any(
        (a.kind in ("int", "float", "bool") and not a.is_list and isinstance(value.type, TensorType))
        or (a.kind == "int" and value.type is BOOL)
        for a, value in pairs
        if isinstance(value, Simple)
    )


def result_of(ctx: Context, node: ast.AST, op: Op, args: tuple[Operand, ...]) -> SugaredValue:
    """Append a node, and say what its results are."""
    if op.host:
        return ctx.emit(op, args, node)
    types = declared_types(op, 1)
    emitted = ctx.append(op, args, types, node)
    if len(types) == 1:
        return Simple(emitted.output, types[0])
    names = [r.name for r in op.schema.returns]
    return TupleValue(
        [Simple(v, t) for v, t in zip(emitted.outputs, types, strict=True)],
        op.base if all(names) else "",
        names if all(names) else (),
    )


def match(ctx: Context, node: ast.AST, op: Op, args: Sequence[SugaredValue], kwargs: Kwargs) -> list[Make]:
    """For each argument of the schema what makes its operand. Nothing is emitted before all fit. Raises NoMatch."""
    arguments = op.schema.arguments
    limit = sum(not a.keyword_only for a in arguments)
    values: list[SugaredValue | None] = [*_gathered(op, args, limit), *[None] * len(arguments)][: len(arguments)]
    names = positions_of(op)
    for name, value in kwargs.items():
        at = names.get(name)
        if at is None and _is_implied(op, name, value):
            continue
        if at is None:
            raise NoMatch(f"Unknown keyword argument '{name}'")
        if values[at] is not None:
            raise NoMatch(f"got two values for argument '{name}'")
        values[at] = value
    return [_make(ctx, node, op, a, value) for a, value in zip(arguments, values, strict=True)]


def _is_implied(op: Op, name: str, value: SugaredValue) -> bool:
    """Whether the overload is the one for this value of an argument that it leaves out."""
    implied = op.implied or {}
    return name in implied and isinstance(value, Simple) and value.is_constant and value.operand == implied[name]


def _gathered(op: Op, args: Sequence[SugaredValue], limit: int) -> list[SugaredValue]:
    """The arguments by position; integers (or tensors) written one by one are the list that stands last."""
    arguments = op.schema.arguments[:limit]
    last = arguments[-1] if arguments else None
    if (
        last is not None
        and last.is_list
        and last.kind in ("int", "Tensor")
        and last.list_size is None
        and len(args) > limit - 1
        and all(_is_one(a, last) for a in args[limit - 1 :])
        and (len(args) > limit or last.kind == "int")
    ):
        return [*args[: limit - 1], ListValue(args[limit - 1 :])]
    if len(args) > limit:
        raise NoMatch(f"takes {limit} positional arguments, {len(args)} were given")
    return list(args)


def _is_one(value: SugaredValue, argument: Argument | None) -> bool:
    return (
        isinstance(value, Simple)
        and argument is not None
        and (value.type in (INT, NUMBER) if argument.kind == "int" else isinstance(value.type, TensorType))
    )


def _make(ctx: Context, node: ast.AST, op: Op, argument: Argument, value: SugaredValue | None) -> Make:
    if value is None:
        if not argument.has_default:
            raise NoMatch(f"Argument {argument.name} not provided")
        return lambda: argument.default
    if argument.is_list:
        return _list(ctx, node, argument, value)
    return _one(ctx, node, argument, value, op.numbers)


def _list(ctx: Context, node: ast.AST, argument: Argument, value: SugaredValue) -> Make:
    kind = KINDS[argument.kind]
    if isinstance(value, Simple):
        operand = value.operand
        if value.type is NONE and argument.is_optional:
            return lambda: None
        inner = value.type.inner if isinstance(value.type, OptionalType) and argument.is_optional else value.type
        if isinstance(inner, ListType) and (
            _element_fits(inner.element, kind)
            or (argument.element_optional and isinstance(inner.element, OptionalType))
        ):
            return lambda: operand
        if isinstance(value.type, TupleType):
            value = TupleValue(value.elements(ctx, node))
        elif argument.list_size is not None or (argument.kind == "int" and value.type is not BOOL):
            one = _one(ctx, node, argument, value, False)
            return lambda: (one(),) * (argument.list_size or 1)
    if isinstance(value, TupleValue):
        parts = [
            _one(ctx, node, argument, item, False) if not _is_none(item, argument) else _none for item in value.items
        ]
        return lambda: tuple(part() for part in parts)
    raise _wrong(argument, value)


def _none() -> None:
    return None


def _is_none(value: SugaredValue, argument: Argument) -> bool:
    return argument.element_optional and isinstance(value, Simple) and value.type is NONE


def _element_fits(actual: Type, wanted: Type) -> bool:
    return (
        actual is wanted
        or (isinstance(actual, TensorType) and wanted is TENSOR)
        or (wanted is FLOAT and actual is INT)
        or (wanted is NUMBER and actual in _NUMBERS)
    )


def _one(ctx: Context, node: ast.AST, argument: Argument, value: SugaredValue, numbers: bool) -> Make:
    if not isinstance(value, Simple):
        if argument.kind == "Object":
            return lambda: value.as_value(ctx, node).operand
        raise _wrong(argument, value)
    kind = value.type
    if isinstance(kind, OptionalType) and argument.is_optional:
        kind = kind.inner
    if (kind is NONE and argument.is_optional) or _fits(kind, argument.kind, numbers):
        return lambda: value.operand
    convert = (
        _CONVERTED.get(argument.kind)
        if isinstance(kind, TensorType)
        else "int"
        if kind is NUMBER and argument.kind == "int"
        else None
    )
    if convert is None:
        raise _wrong(argument, value)
    return lambda: _converted(ctx, node, convert, value)


def _converted(ctx: Context, node: ast.AST, convert: str, value: Simple) -> Operand:
    if convert == "item":
        return ctx.emit(ctx.op("aten::item"), (value.operand,), node).operand
    return ctx.prim(convert, node, value).operand


_CONVERTED = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "Scalar": "item",
}  # a tensor with one element, where a number is wanted
_TAKES: dict[str, tuple[Type, ...]] = {
    "Scalar": _NUMBERS,
    "int": (INT, BOOL),
    "float": (FLOAT, INT, BOOL, NUMBER),
    "bool": (BOOL,),
    "str": (STR,),
    "ScalarType": (DTYPE,),
    "Device": (STR, DEVICE),
    "Layout": (STR,),
    "MemoryFormat": (STR,),
    "Generator": (GENERATOR,),
}


def _fits(kind: Type, wanted: str, numbers: bool) -> bool:
    if wanted == "Tensor":
        return isinstance(kind, TensorType) or (numbers and kind in _NUMBERS)
    return wanted == "Object" or kind in _TAKES.get(wanted, ())


def _wrong(argument: Argument, value: SugaredValue) -> NoMatch:
    actual: Any = (
        written(value.type)
        if isinstance(value, Simple)
        else f"a {value.kind} of {len(value.items)}"
        if isinstance(value, TupleValue)
        else f"a {value.kind}"
    )
    hint = (
        "; check first that it is not None: `assert x is not None`"
        if isinstance(value, Simple) and isinstance(value.type, OptionalType)
        else ""
    )
    return NoMatch(
        f"Expected a value of type '{argument.type_text}' for argument '{argument.name}' but instead found type "
        f"'{actual}'{hint}"
    )
