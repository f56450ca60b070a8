"""`x[i]`, `x[a:b]`, `x[i] = v`, `del x[i]`: of lists, texts, dicts, tuples and tensors."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from weft.ir.graph import Operand
from weft.jit.script.frontend.classes.interfaces import interface_of
from weft.jit.script.frontend.classes.script_classes import description_of_value, magic, magic_or_refuse
from weft.jit.script.frontend.context import TABLES, Context, translates
from weft.jit.script.frontend.submodules import part_of_container, submodule_at
from weft.jit.script.frontend.values import NOTHING, ListValue, Simple, SugaredValue, TupleValue, constant
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
    Type,
)


class SliceValue(SugaredValue):
    """`start:stop:step` in an index, or `slice(start, stop, step)`: three values, of which None stands for what is
    left out.
    """

    kind = "slice"

    def __init__(self, parts: Sequence[Simple]) -> None:
        self.parts = tuple(parts)

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        if name not in _PARTS:
            self.refuse(ctx, node, f"has no attribute {name!r}")
        return self.parts[_PARTS.index(name)]


_PARTS = ("start", "stop", "step")


@translates(ast.Slice)
def bounds(ctx: Context, node: ast.Slice) -> SugaredValue:
    """`a:b:c` in an index."""
    return SliceValue([NOTHING if part is None else ctx.value(part) for part in (node.lower, node.upper, node.step)])


def slice_of(ctx: Context, node: ast.AST, args: Sequence[SugaredValue]) -> SliceValue:
    """`slice(stop)`, `slice(start, stop, step)`."""
    parts = [a.as_value(ctx, node) for a in args]
    return SliceValue(([NOTHING, *parts] if len(parts) == 1 else parts) + [NOTHING] * (3 - max(len(parts), 2)))


@translates(ast.Subscript)
def subscript(ctx: Context, node: ast.Subscript) -> SugaredValue:
    """`value[index]`."""
    expected = ctx.expected
    owner = ctx.expression(node.value)
    return get_item(ctx, node, owner, ctx.expression(node.slice), expected)


def get_item(
    ctx: Context, node: ast.AST, owner: SugaredValue, index: SugaredValue, expected: Type | None = None
) -> SugaredValue:
    """The element, elements, or part of a tensor. `expected` is the type that its surroundings want."""
    if isinstance(owner, Simple) and isinstance(owner.type, TensorType):
        return _part(ctx, node, owner, index)
    if isinstance(index, SliceValue):
        return _sliced(ctx, node, owner, index.parts)
    if isinstance(owner, Simple) and interface_of(expected) is not None and ctx.program.is_module(owner):
        assert expected is not None
        return submodule_at(ctx, node, owner, index.as_value(ctx, node), expected)
    return owner.item(ctx, node, index)


def _item(ctx: Context, node: ast.AST, owner: Simple, index: SugaredValue) -> SugaredValue:
    returned = magic(ctx, node, owner, "__getitem__", [index])
    if returned is not None:
        return returned
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
            node, "the index of a container of Modules must be written in the program, or come from an unrolled loop; "
            "or annotate the element with an interface: `layer: Layer = self.layers[i]`"
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


def _sliced(ctx: Context, node: ast.AST, owner: SugaredValue, parts: Sequence[Simple]) -> SugaredValue:
    if not isinstance(owner, Simple) or isinstance(owner.type, (TupleType, ClassType)):
        items = owner.elements(ctx, node)
        if not all(p.is_constant for p in parts):
            ctx.fail(node, "the bounds of a tuple's slice must be integers that are written in the program")
        part = items[slice(*(p.operand for p in parts))]
        if not part and isinstance(owner, ListValue):  # the whole tells of which type it is, an empty part does not
            return ctx.prim("slice", node, owner.as_value(ctx, node), *parts)
        if isinstance(owner, Simple) and isinstance(owner.type, ClassType):
            return part_of_container(ctx, node, owner, part)
        return owner.sliced(part) if isinstance(owner, TupleValue) else TupleValue(part)
    return ctx.prim("slice", node, owner, *parts)


# ---- tensors
def _part(ctx: Context, node: ast.AST, owner: Simple, index: SugaredValue) -> Simple:
    """A view for a number or a slice; for everything else what Python's index gives."""
    if isinstance(index, SliceValue):
        start, stop, step = index.parts
        step = constant(1, INT) if step.type is NONE else step
        operands = (owner.operand, 0, start.operand, stop.operand, step.operand)
        return ctx.emit(ctx.op("aten::slice.Tensor"), operands, node, (owner.type,))
    if isinstance(index, Simple) and index.type is INT:
        return ctx.emit(ctx.op("aten::select.int"), (owner.operand, 0, index.operand), node, (owner.type,))
    return ctx.emit(ctx.op("prim::tensor_getitem"), (owner.operand, _places(ctx, node, index)), node)


def _places(ctx: Context, node: ast.AST, index: SugaredValue) -> tuple[Operand, ...]:
    items = index.items if type(index) is TupleValue else (index,)
    return tuple(_place(ctx, node, item) for item in items)


def _place(ctx: Context, node: ast.AST, item: SugaredValue) -> Operand:
    if isinstance(item, SliceValue):
        return ctx.emit(ctx.op("prim::make_slice"), tuple(p.operand for p in item.parts), node).operand
    return _checked(ctx, node, item.as_value(ctx, node))


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
def set_item(ctx: Context, node: ast.AST, owner: SugaredValue, index: SugaredValue, value: SugaredValue) -> None:
    """`owner[index] = value`."""
    held = owner.as_value(ctx, node)
    if description_of_value(held) is not None:
        magic_or_refuse(ctx, node, held, "__setitem__", [index, value])
        return
    if isinstance(held.type, TensorType):
        new_value = value.as_value(ctx, node)
        ctx.emit(
            ctx.op("prim::tensor_setitem"), (held.operand, _places(ctx, node, index), new_value.operand), node, ()
        )
        return
    if isinstance(held.type, (TupleType, OptionalType)):
        ctx.fail(node, f"a value of type {held.type} cannot be written to by index")
    if isinstance(index, SliceValue):
        ctx.prim("set_slice", node, held, *index.parts, value.as_value(ctx, node, held.type))
        return
    at = index.as_value(ctx, node)
    inner = held.type.element if isinstance(held.type, ListType) else getattr(held.type, "value", None)
    ctx.prim("setitem", node, held, at, ctx.stored(value.as_value(ctx, node, inner), inner, node, "the element"))


def delete_item(ctx: Context, node: ast.AST, owner: SugaredValue, index: SugaredValue) -> None:
    """`del owner[index]`."""
    held = owner.as_value(ctx, node)
    if description_of_value(held) is not None:
        magic_or_refuse(ctx, node, held, "__delitem__", [index])
    elif isinstance(index, SliceValue):
        ctx.prim("delete_slice", node, held, *index.parts)
    else:
        ctx.prim("delitem", node, held, index.as_value(ctx, node))
