"""Assignment: to names, tuples of targets, attributes, elements; with an operation; deletion."""

from __future__ import annotations

import ast

from weft.jit.script.frontend.classes.script_classes import magic
from weft.jit.script.frontend.context import Context, executes
from weft.jit.script.frontend.matching import call_any
from weft.jit.script.frontend.operations import BINARY, METHODS, compute, is_tensor
from weft.jit.script.frontend.subscripts import delete_item, get_item, set_item
from weft.jit.script.frontend.types import annotated_type
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, TupleValue
from weft.ops.op import PACKETS
from weft.types.tensor_type import ANY, ListType

_IN_PLACE = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift",
    ast.RShift: "bitwise_right_shift",
}


@executes(ast.Assign)
def assign(ctx: Context, node: ast.Assign) -> None:
    """`a = b = value`."""
    first = node.targets[0]
    expected = ctx.scope.declared.get(first.id) if isinstance(first, ast.Name) else None
    value = ctx.expression(node.value, expected)
    if len(node.targets) > 1 or not isinstance(first, (ast.Subscript, ast.Attribute)):
        value = held(ctx, node.value, value, expected)  # (elsewhere the place says what an empty list holds)
    for target in node.targets:
        assign_target(ctx, target, value)


def held(ctx: Context, node: ast.AST, value: SugaredValue, expected: object = None) -> SugaredValue:
    """The value as a name holds it: a list that is written out becomes one object."""
    if type(value) is ListValue:
        return value.as_value(ctx, node, expected)  # type: ignore[arg-type]
    if type(value) is TupleValue:
        return TupleValue([held(ctx, node, item) for item in value.items], value.name, value.fields)
    return value


def assign_target(ctx: Context, target: ast.expr, value: SugaredValue) -> None:
    """Give a target its value."""
    if isinstance(target, ast.Name):
        declared = ctx.scope.declared.get(target.id)
        if declared is not None:
            simple = value.as_value(ctx, target, declared)
            ctx.scope.assign(
                target.id,
                simple if simple.type.is_subtype_of(declared) else ctx.promised(simple, declared, target, target.id),
            )
            return
        if isinstance(value, Simple) and hasattr(value.operand, "name") and not value.operand.name:
            value.operand.name = target.id
        ctx.scope.assign(target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(ctx, target, value)
    elif isinstance(target, ast.Attribute):
        ctx.expression(target.value).set_attribute(ctx, target, target.attr, value)
    elif isinstance(target, ast.Subscript):
        set_item(ctx, target, ctx.expression(target.value), ctx.expression(target.slice), value)
    else:
        ctx.fail(target, "this cannot be assigned to")


def _unpack_list(ctx: Context, target: ast.Tuple | ast.List, value: Simple, star: int) -> None:
    """`a, *b, c = items`, for a list."""
    after, kind = len(target.elts) - star - 1, value.type
    assert isinstance(kind, ListType)
    types = (*(kind.element,) * star, kind, *(kind.element,) * after)
    unpacked = ctx.append(ctx.op("prim::ListUnpackAround"), (value.operand, star, after), types, target)
    for part, output in zip(target.elts, unpacked.outputs, strict=True):
        assign_target(ctx, part.value if isinstance(part, ast.Starred) else part, Simple(output, output.type))


def _unpack(ctx: Context, target: ast.Tuple | ast.List, value: SugaredValue) -> None:
    starred = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
    if starred and isinstance(value, Simple) and isinstance(value.type, ListType):
        return _unpack_list(ctx, target, value, starred[0])
    items = value.elements(ctx, target, None if starred else len(target.elts))
    count = len(target.elts)
    if len(items) < count - len(starred) or (not starred and len(items) > count):
        ctx.fail(
            target,
            f"need {'at least ' if starred else ''}{count - len(starred)} values to unpack, there are {len(items)}",
        )
    if not starred:
        pairs = list(zip(target.elts, items, strict=True))
    else:
        at, after = starred[0], count - starred[0] - 1
        middle = TupleValue(items[at : len(items) - after])
        star = target.elts[at]
        assert isinstance(star, ast.Starred)
        pairs = [
            *zip(target.elts[:at], items[:at], strict=True),
            (star.value, middle),
            *zip(target.elts[at + 1 :], items[len(items) - after :], strict=True),
        ]
    for part, item in pairs:
        assign_target(ctx, part, item)


@executes(ast.AnnAssign)
def annotated(ctx: Context, node: ast.AnnAssign) -> None:
    """`name: type = value`. The type holds for the name in the whole function."""
    kind = annotated_type(ctx, node.annotation)
    if isinstance(node.target, ast.Name):
        ctx.scope.declared[node.target.id] = kind
    if node.value is None:
        return
    if kind is ANY and isinstance(node.target, ast.Name):  # any type is the one that the value has
        del ctx.scope.declared[node.target.id]
        return assign_target(ctx, node.target, held(ctx, node.value, ctx.expression(node.value, kind)))
    value = ctx.promised(ctx.value(node.value, kind), kind, node.value, "the value")
    assign_target(ctx, node.target, value)


# ---- with an operation
@executes(ast.AugAssign)
def augmented(ctx: Context, node: ast.AugAssign) -> None:
    """`target += value`: tensors and lists are written in place, as in Python; other values are replaced."""
    target = node.target
    if isinstance(target, ast.Subscript):
        return _augmented_item(ctx, node, target)
    owner = ctx.expression(target.value) if isinstance(target, ast.Attribute) else None
    if owner is not None and isinstance(target, ast.Attribute):
        old = owner.attribute(ctx, target, target.attr)
    else:
        assert isinstance(target, ast.Name)
        old = ctx.lookup(target.id, target)
    value = _updated(ctx, node, old)
    if value is None:
        return
    if owner is not None and isinstance(target, ast.Attribute):
        owner.set_attribute(ctx, target, target.attr, value)
    else:
        assign_target(ctx, target, value)


def _augmented_item(ctx: Context, node: ast.AugAssign, target: ast.Subscript) -> None:
    owner, index = ctx.expression(target.value), ctx.expression(target.slice)
    old = get_item(ctx, target, owner, index)
    value = _updated(ctx, node, old)
    if value is not None:
        set_item(ctx, target, owner, index, value)
    elif is_tensor(old) and is_tensor(owner):
        set_item(ctx, target, owner, index, old)


def _updated(ctx: Context, node: ast.AugAssign, old: SugaredValue) -> SugaredValue | None:
    """The new value, or None where the old one has been written in place."""
    operation = type(node.op)
    right = ctx.expression(node.value)
    written = magic(ctx, node, old, f"__i{METHODS[operation][2:]}", [right])
    if written is not None:
        return written
    if is_tensor(old) and operation in _IN_PLACE:
        name = _IN_PLACE[operation]
        candidates = [op for op in PACKETS[f"aten::{name}"] if op.inplace]
        call_any(ctx, node, f"{name}_", candidates, [old, right.as_value(ctx, node)], {}, in_place=True)
        return None
    if isinstance(old, Simple) and isinstance(old.type, ListType) and operation is ast.Add:
        ctx.prim("extend", node, old, right.as_value(ctx, node, old.type))
        return None
    if isinstance(old, Simple) and isinstance(old.type, ListType) and operation is ast.Mult:
        repeated = compute(ctx, node, operation, old, right).as_value(ctx, node)
        ctx.prim("clear", node, old)
        ctx.prim("extend", node, old, repeated)
        return None
    assert operation in BINARY
    return compute(ctx, node, operation, old, right)


# ---- deletion
@executes(ast.Delete)
def delete(ctx: Context, node: ast.Delete) -> None:
    """`del items[i]`, `del name`."""
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            delete_item(ctx, target, ctx.expression(target.value), ctx.expression(target.slice))
        elif isinstance(target, ast.Name) and target.id in ctx.scope.assigned:
            del ctx.scope.assigned[target.id]
        else:
            ctx.fail(target, "only elements, and names of the same block, can be deleted")
