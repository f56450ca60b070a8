"""`x[i]`, `x[a:b]`, `x[i] = v`, `del x[i]`: of lists, texts, dicts, tuples and tensors."""

from __future__ import annotations

import ast
from typing import Any

from weft.ir.graph import Operand
from weft.jit.frontend.classes.script_classes import description_of_value, magic, magic_or_refuse
from weft.jit.frontend.context import TABLES, Context, translates
from weft.jit.frontend.values import NOTHING, ListValue, Simple, SugaredValue, TupleValue, constant
from weft.types.tensor_type import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    ClassType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
)


@translates(ast.Subscript)
def subscript(ctx: Context, node: ast.Subscript) -> SugaredValue:
    """`value[index]`."""
    return get_item(ctx, node, ctx.expression(node.value))


def get_item(ctx: Context, node: ast.Subscript, owner: SugaredValue) -> SugaredValue:
    """The element, elements, or part of a tensor."""
    if isinstance(owner, Simple) and isinstance(owner.type, TensorType):
        return _part(ctx, node, owner)
    if isinstance(node.slice, ast.Slice):
        return _sliced(ctx, node, owner, node.slice)
    return owner.item(ctx, node, ctx.expression(node.slice))


def _item(ctx: Context, node: ast.AST, owner: Simple, index: SugaredValue) -> SugaredValue:
    found = magic(ctx, node, owner, "__getitem__", [index])
    if found is not None:
        return found
    at = index.as_value(ctx, node)
    if isinstance(owner.type, ClassType):
        return _submodule(ctx, node, owner, at)
    if isinstance(owner.type, TupleType):
        return _element(ctx, node, owner, at)
    if isinstance(owner.type, OptionalType):
        ctx.fail(
            node,
            f"a value of type {owner.type} cannot be indexed; check first that it is not None: `assert x is not None`",
        )
    if isinstance(owner.type, TensorType):
        return ctx.emit(ctx.op("prim::tensor_getitem"), (owner.operand, (at.operand,)), node)
    return ctx.prim("getitem", node, owner, at)


def _submodule(ctx: Context, node: ast.AST, owner: Simple, at: Simple) -> SugaredValue:
    """An element of a ModuleList or Sequential, or of a ModuleDict by its key."""
    if not at.is_constant:
        ctx.fail(
            node, "the index of a container of Modules must be written in the program, or come from an unrolled loop"
        )
    if isinstance(at.operand, str):
        return owner.attribute(ctx, node, at.operand)
    return TupleValue(owner.elements(ctx, node)).item(ctx, node, at)


def _element(ctx: Context, node: ast.AST, owner: Simple, at: Simple) -> Simple:
    assert isinstance(owner.type, TupleType)
    if at.is_constant and type(at.operand) is int:
        count = len(owner.type.elements)
        if not -count <= at.operand < count:
            ctx.fail(node, f"tuple index {at.operand} is out of range: the tuple has {count} elements")
        return ctx.emit(ctx.op("prim::TupleIndex"), (owner.operand, at.operand), node)
    if len(set(owner.type.elements)) == 1 and at.type is INT:  # of one type throughout, it can be read like a list
        items = ctx.prim("list", node, owner)
        return ctx.prim("getitem", node, items, at)
    ctx.fail(node, "the index of a tuple must be an integer that is written in the program")


TABLES.item = _item


def _bounds(ctx: Context, node: ast.Slice) -> list[Simple]:
    return [NOTHING if part is None else ctx.value(part) for part in (node.lower, node.upper, node.step)]


def _sliced(ctx: Context, node: ast.AST, owner: SugaredValue, bounds: ast.Slice) -> SugaredValue:
    parts = _bounds(ctx, bounds)
    if not isinstance(owner, Simple) or isinstance(owner.type, (TupleType, ClassType)):
        items = owner.elements(ctx, node)
        if not all(p.is_constant for p in parts):
            ctx.fail(node, "the bounds of a tuple's slice must be integers that are written in the program")
        return (
            type(owner)(items[slice(*(p.operand for p in parts))])
            if type(owner) is ListValue
            else TupleValue(items[slice(*(p.operand for p in parts))])
        )
    return ctx.prim("slice", node, owner, *parts)


# ---- tensors
def _part(ctx: Context, node: ast.Subscript, owner: Simple) -> Simple:
    """A view for a number or a slice; for everything else what Python's index gives."""
    index = node.slice
    if isinstance(index, ast.Slice):
        start, stop, step = _bounds(ctx, index)
        step = constant(1, INT) if step is NOTHING else step
        return ctx.emit(
            ctx.op("aten::slice.Tensor"),
            (owner.operand, 0, start.operand, stop.operand, step.operand),
            node,
            (owner.type,),
        )
    if not isinstance(index, ast.Tuple):
        at = ctx.expression(index)
        if isinstance(at, Simple) and at.type is INT:
            return ctx.emit(ctx.op("aten::select.int"), (owner.operand, 0, at.operand), node, (owner.type,))
        return ctx.emit(ctx.op("prim::tensor_getitem"), (owner.operand, _places(ctx, node, at)), node)
    return ctx.emit(ctx.op("prim::tensor_getitem"), (owner.operand, _index(ctx, node)), node)


def _index(ctx: Context, node: ast.Subscript) -> tuple[Operand, ...]:
    index = node.slice
    if not isinstance(index, (ast.Tuple, ast.Slice)):
        return _places(ctx, node, ctx.expression(index))
    return tuple(_place(ctx, part) for part in (index.elts if isinstance(index, ast.Tuple) else [index]))


def _places(ctx: Context, node: ast.AST, value: SugaredValue) -> tuple[Operand, ...]:
    if type(value) is TupleValue:
        return tuple(_checked(ctx, node, item.as_value(ctx, node)) for item in value.items)
    return (_checked(ctx, node, value.as_value(ctx, node)),)


def _place(ctx: Context, node: ast.expr) -> Operand:
    if isinstance(node, ast.Slice):
        parts = _bounds(ctx, node)
        return ctx.emit(ctx.op("prim::make_slice"), tuple(p.operand for p in parts), node).operand
    return _checked(ctx, node, ctx.value(node))


def _checked(ctx: Context, node: ast.AST, value: Simple) -> Operand:
    kind: Any = value.type
    allowed = (INT, BOOL, NONE, NUMBER)
    if (
        kind in allowed
        or isinstance(kind, TensorType)
        or (kind is ANY and value.operand == "...")
        or isinstance(kind, ListType)
    ):
        return value.operand
    ctx.fail(
        node,
        f"a tensor is indexed by integers, slices, None, `...`, lists and tensors, not by {kind}"
        + (
            "; check first that it is not None"
            if isinstance(kind, OptionalType)
            else "; convert it: `int(...)`"
            if kind in (FLOAT, STR)
            else ""
        ),
    )


# ---- writing
def set_item(ctx: Context, node: ast.Subscript, owner: SugaredValue, value: SugaredValue) -> None:
    """`owner[index] = value`."""
    held = owner.as_value(ctx, node)
    if description_of_value(held) is not None:
        magic_or_refuse(ctx, node, held, "__setitem__", [ctx.expression(node.slice), value])
        return
    if isinstance(held.type, TensorType):
        given = value.as_value(ctx, node)
        ctx.emit(ctx.op("prim::tensor_setitem"), (held.operand, _index(ctx, node), given.operand), node, ())
        return
    if isinstance(held.type, (TupleType, OptionalType)):
        ctx.fail(node, f"a value of type {held.type} cannot be written to by index")
    if isinstance(node.slice, ast.Slice):
        ctx.prim("set_slice", node, held, *_bounds(ctx, node.slice), value.as_value(ctx, node, held.type))
        return
    at = ctx.value(node.slice)
    inner = held.type.element if isinstance(held.type, ListType) else getattr(held.type, "value", None)
    ctx.prim("setitem", node, held, at, ctx.coerced(value.as_value(ctx, node, inner), inner, node, "the element"))


def delete_item(ctx: Context, node: ast.Subscript, owner: SugaredValue) -> None:
    """`del owner[index]`."""
    held = owner.as_value(ctx, node)
    if description_of_value(held) is not None:
        magic_or_refuse(ctx, node, held, "__delitem__", [ctx.expression(node.slice)])
    elif isinstance(node.slice, ast.Slice):
        ctx.prim("delete_slice", node, held, *_bounds(ctx, node.slice))
    else:
        ctx.prim("delitem", node, held, ctx.value(node.slice))
