"""Conditions: what is known at once, and what each outcome says about the types of names (`x is not None`,
`isinstance(x, T)`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.ir.graph import Value
from weft.jit.errors import CompileError
from weft.jit.script.frontend.classes.script_classes import magic
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.values import Simple, SugaredValue, TupleValue, constant
from weft.types.tensor_type import (
    ANY,
    BOOL,
    INT,
    NONE,
    STR,
    DictType,
    ListType,
    OptionalType,
    Type,
    dict_of,
    list_of,
    members_of,
    union_of,
)

Names = dict[str, Type]


@dataclass
class Condition:
    """A bool, and the types that names have where it holds and where it does not."""

    value: Simple
    holds: Names = field(default_factory=dict)
    fails: Names = field(default_factory=dict)

    @property
    def known(self) -> bool | None:
        """The outcome, if it is known while compiling."""
        return None if isinstance(self.value.operand, Value) else bool(self.value.operand)


def condition(ctx: Context, node: ast.expr) -> Condition:
    """An expression as a condition."""
    if isinstance(node, ast.BoolOp):
        return _several(ctx, node, node.values, isinstance(node.op, ast.And))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = condition(ctx, node.operand)
        return Condition(ctx.prim("not_", node, inner.value), inner.fails, inner.holds)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return _of_identity(ctx, node)
    if (
        isinstance(node, ast.Call)
        and _question(node.func) is not None
        and ctx.scope.find(str(_question(node.func))) is None
    ):
        return _of_instance(ctx, node) if _question(node.func) == "isinstance" else Condition(_has_attribute(ctx, node))
    value = ctx.expression(node)
    if isinstance(value, TupleValue):
        return Condition(constant(bool(value.items), BOOL))
    return Condition(truth(ctx, node, value.as_value(ctx, node)))


def truth(ctx: Context, node: ast.AST, value: Simple) -> Simple:
    """A value as a condition."""
    if isinstance(value.type, OptionalType):
        ctx.fail(node, f"a value of type {value.type} is no condition; ask whether it is None: `x is not None`")
    for name, kind in (("__bool__", BOOL), ("__len__", INT)):
        returned = magic(ctx, node, value, name)
        if returned is not None:
            answer = returned.as_value(ctx, node)
            if answer.type is not kind:
                ctx.fail(node, f"{name} of {value.type} must give {kind}, and gives {answer.type}")
            return ctx.prim("bool", node, answer)
    return (
        value if value.type is BOOL else constant(False, BOOL) if value.type is NONE else ctx.prim("bool", node, value)
    )


# ---- and, or
def _several(ctx: Context, node: ast.AST, parts: list[ast.expr], all_of: bool) -> Condition:
    """`a and b`, `a or b`: the later ones are computed only where the earlier ones leave it open, with what these say
    about names.
    """
    first = condition(ctx, parts[0])
    if len(parts) == 1:
        return first
    if first.known is not None:
        return first if first.known is not all_of else _several(ctx, node, parts[1:], all_of)
    with ctx.block() as inner:
        refine(ctx, first.holds if all_of else first.fails)
        rest = _several(ctx, node, parts[1:], all_of)
        later = inner.block((rest.value.operand,))
    with ctx.block() as inner:
        stop = inner.block((not all_of,))
    blocks = (later, stop) if all_of else (stop, later)
    conditional = ctx.append(ctx.op("prim::If"), (first.value.operand,), (BOOL,), node, blocks)
    value = Simple(conditional.output, BOOL)
    return (
        Condition(value, {**first.holds, **rest.holds}, {})
        if all_of
        else Condition(value, {}, {**first.fails, **rest.fails})
    )


# ---- None
def identity(ctx: Context, node: ast.AST, left: SugaredValue, right: SugaredValue, positive: bool) -> Simple:
    """`a is b`, `a is not b`; known at once where a type says that a value is None, or is not."""
    a, b = left.as_value(ctx, node), right.as_value(ctx, node)
    if NONE in (a.type, b.type):
        other = b if a.type is NONE else a
        if other.type is NONE:
            return constant(positive, BOOL)
        if not isinstance(other.type, OptionalType) and other.type is not ANY:
            return constant(not positive, BOOL)
    return ctx.prim("is_" if positive else "is_not", node, a, b)


def _of_identity(ctx: Context, node: ast.Compare) -> Condition:
    left, right = node.left, node.comparators[0]
    positive = isinstance(node.ops[0], ast.Is)
    value = identity(ctx, node, ctx.expression(left), ctx.expression(right), positive)
    names: tuple[Names, Names] = ({}, {})
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ast.Name) and isinstance(other, ast.Constant) and other.value is None:
            meaning = ctx.scope.find(one.id)
            if isinstance(meaning, Simple) and isinstance(meaning.type, OptionalType):
                names = ({one.id: NONE}, {one.id: meaning.type.inner})
    return Condition(value, *(names if positive else names[::-1]))


# ---- isinstance
def is_question(node: ast.expr) -> bool:
    """Whether an expression asks for a type or an attribute, and so says something about a name."""
    return isinstance(node, ast.Call) and _question(node.func) is not None


def _question(function: ast.expr) -> str | None:
    """`isinstance` (weft.jit's too), `hasattr`, or None for any other function."""
    if isinstance(function, ast.Attribute):
        return "isinstance" if function.attr == "isinstance" else None
    return function.id if isinstance(function, ast.Name) and function.id in ("isinstance", "hasattr") else None


def _of_instance(ctx: Context, node: ast.Call) -> Condition:
    if len(node.args) != 2:
        ctx.fail(node, "isinstance takes a value and a type")
    value = ctx.value(node.args[0])
    answer = ctx.program.is_module_of(ctx, value, node.args[1])
    if answer is not None:
        return Condition(constant(answer, BOOL))
    wanted = TYPES_OF[0](ctx, node.args[1])
    name = node.args[0].id if isinstance(node.args[0], ast.Name) else ""
    if value.type is ANY:
        asked = union_of(*(_ANY_OF.get(w, w) for w in wanted))
        kinds = asked if all(isinstance(w, Type) for w in wanted) else None
        return Condition(_asked(ctx, node, value, asked), {name: kinds} if kinds is not None else {})
    members = members_of(value.type)
    fitting = [m for m in members if _is_one_of(m, wanted)]
    others = [m for m in members if m not in fitting]
    if not fitting or not others:
        return Condition(constant(not others, BOOL))
    holds, fails = union_of(*fitting), union_of(*others)
    if NONE in (holds, fails):
        question = "is_" if holds is NONE else "is_not"
        return Condition(ctx.prim(question, node, value, Simple(None, NONE)), {name: holds}, {name: fails})
    return Condition(_asked(ctx, node, value, holds), {name: holds}, {name: fails})


def _asked(ctx: Context, node: ast.AST, value: Simple, kind: Type) -> Simple:
    """The question whether a value is of a type, asked when the program runs."""
    return ctx.prim("isinstance", node, value, constant(str(kind), STR))


_ANY_OF: dict[Any, Type] = {ListType: list_of(ANY), DictType: dict_of(ANY, ANY)}


def _is_one_of(kind: Type, wanted: list[Any]) -> bool:
    return any(
        kind.is_subtype_of(w) if isinstance(w, Type) else isinstance(kind, w)
        for w in wanted
    )


TYPES_OF: list[Callable[[Context, ast.expr], list[Any]]] = []  # builtins.py knows what Python's types mean


def _has_attribute(ctx: Context, node: ast.Call) -> Simple:
    wanted = node.args[1] if len(node.args) == 2 else None
    if not isinstance(wanted, ast.Constant) or not isinstance(wanted.value, str):
        ctx.fail(node, "hasattr takes an object and a name that is written out")
    return constant(has_attribute(ctx, node, node.args[0], wanted.value), BOOL)


def has_attribute(ctx: Context, node: ast.AST, owner: ast.expr, name: str) -> bool:
    """Whether an object has an attribute that programs can use. Nothing of the question stays in the graph."""
    count = len(ctx.builder.nodes)
    try:
        ctx.expression(owner).attribute(ctx, node, name)
        return True
    except CompileError:
        return False
    finally:
        del ctx.builder.nodes[count:]


# ---- names
def refine(ctx: Context, names: Names) -> None:
    """Within the current block, names are known to be of these types."""
    for name, kind in names.items():
        meaning = ctx.scope.find(name)
        if isinstance(meaning, Simple) and meaning.type is not kind:
            ctx.scope.refine(name, refined(ctx, meaning, kind))


def refined(ctx: Context, value: Simple, kind: Type) -> Simple:
    """The value as one of a type that the program has found out."""
    if kind is NONE:
        return Simple(None, NONE)
    if not isinstance(value.operand, Value):
        return Simple(value.operand, kind)
    cast = ctx.builder.emit_raw(ctx.op("prim::unchecked_cast"), (value.operand, str(kind)), (kind,))
    return Simple(cast.output, kind)
