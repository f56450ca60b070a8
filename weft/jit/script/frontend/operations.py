"""Arithmetic and comparison: on numbers and containers the language's operators, on tensors the tensors'."""

from __future__ import annotations

import ast

from weft.jit.script.frontend.branches import choose
from weft.jit.script.frontend.classes.script_classes import description_of_value, magic, magic_or_refuse
from weft.jit.script.frontend.conditions import Condition, condition, identity, is_question, truth
from weft.jit.script.frontend.context import Context, translates
from weft.jit.script.frontend.matching import call_operator
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, TupleValue, constant
from weft.types.tensor_type import BOOL, FLOAT, INT, ClassType, DictType, ListType, TensorType, TupleType

# Python's operator: the entry for numbers, and the one for tensors.
BINARY: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("add", "aten::add"),
    ast.Sub: ("sub", "aten::sub"),
    ast.Mult: ("mul", "aten::mul"),
    ast.Div: ("truediv", "aten::div"),
    ast.FloorDiv: ("floordiv", "aten::floor_divide"),
    ast.Mod: ("mod", "aten::remainder"),
    ast.Pow: ("pow", "aten::pow"),
    ast.MatMult: ("matmul", "aten::matmul"),
    ast.BitAnd: ("bitwise_and", "aten::bitwise_and"),
    ast.BitOr: ("bitwise_or", "aten::bitwise_or"),
    ast.BitXor: ("bitwise_xor", "aten::bitwise_xor"),
    ast.LShift: ("lshift", "aten::bitwise_left_shift"),
    ast.RShift: ("rshift", "aten::bitwise_right_shift"),
}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
METHODS: dict[type[ast.AST], str] = {
    **{kind: f"__{name.removeprefix('bitwise_')}__" for kind, (name, _) in BINARY.items()},
    **{kind: f"__{name}__" for kind, name in COMPARE.items()},
    ast.USub: "__neg__",
    ast.UAdd: "__pos__",
    ast.Invert: "__invert__",
}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def is_tensor(value: SugaredValue) -> bool:
    """Whether a value is a tensor of the graph."""
    return isinstance(value, Simple) and isinstance(value.type, TensorType)


@translates(ast.BinOp)
def binary(ctx: Context, node: ast.BinOp) -> SugaredValue:
    """`a + b` and the like."""
    left, right = ctx.expression(node.left), ctx.expression(node.right)
    return compute(ctx, node, type(node.op), left, right)


def compute(
    ctx: Context, node: ast.AST, operation: type[ast.operator], left: SugaredValue, right: SugaredValue
) -> SugaredValue:
    """The result of an operation on two values."""
    if type(left) is TupleValue and type(right) is TupleValue and operation is ast.Add:
        return TupleValue((*left.items, *right.items))
    if type(left) is TupleValue and operation is ast.Mult and isinstance(right, Simple) and type(right.operand) is int:
        return TupleValue(left.items * right.operand)
    name, tensors = BINARY[operation]
    returned = magic(ctx, node, left, METHODS[operation], [right])
    if returned is None:
        returned = magic(ctx, node, right, f"__r{METHODS[operation][2:]}", [left])
    if returned is not None:
        return returned
    _refuse_object(ctx, node, left, METHODS[operation])
    a, b = _beside_each_other(ctx, node, left, right)
    if is_tensor(a) or is_tensor(b):
        if isinstance(a.type, (ListType, DictType, TupleType)) or isinstance(b.type, (ListType, DictType, TupleType)):
            ctx.fail(node, f"no operation {name} of {a.type} and {b.type}")
        return (
            _number_first(ctx, node, operation, tensors, a, b)
            if not is_tensor(a)
            else call_operator(ctx, node, tensors, [a, b])
        )
    if operation is ast.MatMult:
        ctx.fail(node, f"@ is for tensors, not for {a.type} and {b.type}")
    if operation is ast.Pow and a.type in (INT, BOOL) and b.type in (INT, BOOL) and b.is_constant and b.operand >= 0:
        name = "int_pow"
    return ctx.prim(name, node, a, b)


def _beside_each_other(
    ctx: Context, node: ast.AST, left: SugaredValue, right: SugaredValue
) -> tuple[Simple, Simple]:
    """Both operands; an empty list that is written out is one of what the other one holds."""
    if type(left) is ListValue and not left.items:
        b = right.as_value(ctx, node)
        return left.as_value(ctx, node, b.type), b
    a = left.as_value(ctx, node)
    return a, right.as_value(ctx, node, a.type if type(right) is ListValue and not right.items else None)


def _number_first(
    ctx: Context, node: ast.AST, operation: type[ast.operator], name: str, number: Simple, tensor: Simple
) -> SugaredValue:
    """`2 - x` in the steps in which eager mode computes it, so that the results are the same to the last bit."""
    if operation in (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor):
        return call_operator(ctx, node, name, [tensor, number])
    if operation is ast.Sub:
        return call_operator(ctx, node, "aten::rsub", [tensor, number])
    if operation is ast.Div:
        return call_operator(ctx, node, "aten::mul", [call_operator(ctx, node, "aten::reciprocal", [tensor]), number])
    return call_operator(ctx, node, name, [number, tensor])


@translates(ast.UnaryOp)
def unary(ctx: Context, node: ast.UnaryOp) -> SugaredValue:
    """`-a`, `+a`, `~a`, `not a`."""
    if isinstance(node.op, ast.Not):
        asked = condition(ctx, node)
        return asked.value
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and node.operand.value == 1 << 63:
        return constant(-node.operand.value, INT)  # the least integer, whose digits alone do not fit
    value = ctx.value(node.operand)
    returned = magic(ctx, node, value, METHODS[type(node.op)])
    if returned is not None:
        return returned
    _refuse_object(ctx, node, value, METHODS[type(node.op)])
    if isinstance(node.op, ast.UAdd):
        return value if is_tensor(value) else ctx.prim("pos", node, value)
    if is_tensor(value):
        return call_operator(ctx, node, "aten::neg" if isinstance(node.op, ast.USub) else "aten::bitwise_not", [value])
    return ctx.prim("neg" if isinstance(node.op, ast.USub) else "invert", node, value)


@translates(ast.BoolOp)
def logical(ctx: Context, node: ast.BoolOp) -> SugaredValue:
    """`a and b`, `a or b`: the operand that decides, as in Python, which is a bool only where the operands are."""
    if isinstance(node.values[0], (ast.Compare, ast.UnaryOp, ast.BoolOp)) or is_question(node.values[0]):
        return condition(ctx, node).value
    return _deciding(ctx, node, node.values, isinstance(node.op, ast.And))


def _deciding(ctx: Context, node: ast.BoolOp, parts: list[ast.expr], all_of: bool) -> SugaredValue:
    first = ctx.value(parts[0])
    if len(parts) == 1:
        return first
    asked = Condition(truth(ctx, node, first))
    ways = (lambda: _deciding(ctx, node, parts[1:], all_of), lambda: first)[:: 1 if all_of else -1]
    return choose(ctx, node, asked, ways[0], ways[1])


@translates(ast.Compare)
def comparison(ctx: Context, node: ast.Compare) -> SugaredValue:
    """`a < b <= c`: each operand is computed once, and none behind the first comparison that fails."""
    return _compared(ctx, node, ctx.expression(node.left), list(zip(node.ops, node.comparators, strict=True)))


def _compared(
    ctx: Context, node: ast.Compare, left: SugaredValue, rest: list[tuple[ast.cmpop, ast.expr]]
) -> SugaredValue:
    (operation, operand), *more = rest
    right = ctx.expression(operand)
    first = compare(ctx, node, operation, left, right)
    if not more:
        return first
    asked = Condition(truth(ctx, node, first.as_value(ctx, node)))
    return choose(
        ctx,
        node,
        asked,
        lambda: truth(ctx, node, _compared(ctx, node, right, more).as_value(ctx, node)),
        lambda: constant(False, BOOL),
    )


def compare(ctx: Context, node: ast.AST, operation: ast.cmpop, left: SugaredValue, right: SugaredValue) -> SugaredValue:
    """One comparison."""
    if isinstance(operation, (ast.Is, ast.IsNot)):
        return identity(ctx, node, left, right, isinstance(operation, ast.Is))
    if isinstance(operation, (ast.In, ast.NotIn)):
        return _contained(ctx, node, left, right, isinstance(operation, ast.In))
    returned = _compared_objects(ctx, node, operation, left, right)
    if returned is not None:
        return returned
    a, b = _beside_each_other(ctx, node, left, right)
    name = COMPARE[type(operation)]
    if is_tensor(a) and _is_operand(b):
        return call_operator(ctx, node, f"aten::{name}", [a, b])
    if is_tensor(b) and _is_operand(a):
        return call_operator(ctx, node, f"aten::{_MIRRORED[name]}", [b, a])
    return ctx.prim(name, node, a, b)


def _compared_objects(
    ctx: Context, node: ast.AST, operation: ast.cmpop, left: SugaredValue, right: SugaredValue
) -> SugaredValue | None:
    """A comparison by the methods of a class; `!=` may be what `==` is not. None where there are no objects."""
    name = METHODS[type(operation)]
    returned = magic(ctx, node, left, name, [right])
    if returned is None:
        returned = magic(ctx, node, right, METHODS[_SWAPPED[type(operation)]], [left])
    if returned is not None:
        return returned
    if isinstance(operation, ast.NotEq):
        returned = magic(ctx, node, left, "__eq__", [right])
        return None if returned is None else ctx.prim("not_", node, truth(ctx, node, returned.as_value(ctx, node)))
    _refuse_object(ctx, node, left, name)
    return None


_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq
}


def _refuse_object(ctx: Context, node: ast.AST, value: SugaredValue, name: str) -> None:
    if description_of_value(value) is not None:
        magic_or_refuse(ctx, node, value, name)


def _is_operand(value: Simple) -> bool:
    return not isinstance(value.type, (ListType, DictType, TupleType)) and (
        is_tensor(value) or value.type in (INT, FLOAT, BOOL) or str(value.type) in ("Number", "complex")
    )


def _contained_name(ctx: Context, node: ast.AST, name: Simple, modules: Simple, positive: bool) -> Simple:
    """`"name" in self.modules`, of a container of Modules."""
    names = [n.operand for n in modules.elements(ctx, node) if isinstance(n, Simple) and n.is_constant]
    if not name.is_constant:
        ctx.fail(node, "whether a container of Modules has a name is asked of names that are written in the program")
    return constant((name.operand in names) is positive, BOOL)


def _contained(ctx: Context, node: ast.AST, item: SugaredValue, items: SugaredValue, positive: bool) -> Simple:
    asked = magic(ctx, node, items, "__contains__", [item])
    if asked is not None:
        held = truth(ctx, node, asked.as_value(ctx, node))
        return held if positive else ctx.prim("not_", node, held)
    if isinstance(items, Simple) and isinstance(items.type, ClassType):
        return _contained_name(ctx, node, item.as_value(ctx, node), items, positive)
    wanted, container = (
        item.as_value(ctx, node),
        (ListValue(items.items) if type(items) is TupleValue and items.items else items).as_value(ctx, node),
    )
    contained = ctx.prim("contains", node, container, wanted)
    return contained if positive else ctx.prim("not_", node, contained)
