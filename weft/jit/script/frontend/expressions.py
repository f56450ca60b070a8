"""Expressions that are no operation: literals, names, attributes, tuples, choices."""

from __future__ import annotations

import ast

from weft.ir.kinds import type_of_immediate
from weft.jit.script.frontend.branches import choose
from weft.jit.script.frontend.conditions import condition
from weft.jit.script.frontend.context import Context, translates
from weft.jit.script.frontend.values import NOTHING, ListValue, Simple, SugaredValue, TupleValue, constant
from weft.types.sym import fits
from weft.types.tensor_type import ANY, NONE


@translates(ast.Constant)
def literal(ctx: Context, node: ast.Constant) -> SugaredValue:
    """A number, text, None, or `...`."""
    value = node.value
    if value is None:
        return NOTHING if ctx.expected is None else Simple(None, NONE)
    if value is ...:
        return constant("...", ANY)
    if isinstance(value, int) and not isinstance(value, bool) and not fits(value):
        ctx.fail(node, f"the integer {value} does not fit into 64 bits")
    kind = type_of_immediate(value)
    if kind is ANY:
        ctx.fail(node, f"a literal of type {type(value).__name__} cannot be compiled")
    return constant(value, kind)


@translates(ast.Name)
def name(ctx: Context, node: ast.Name) -> SugaredValue:
    """A variable, or what Python knows by the name."""
    return ctx.lookup(node.id, node)


@translates(ast.Attribute)
def attribute(ctx: Context, node: ast.Attribute) -> SugaredValue:
    """`value.name`."""
    return ctx.expression(node.value).attribute(ctx, node, node.attr)


@translates(ast.Tuple)
def tuple_display(ctx: Context, node: ast.Tuple) -> SugaredValue:
    """`(a, *b, c)`."""
    return TupleValue(_items(ctx, node.elts))


@translates(ast.List)
def list_display(ctx: Context, node: ast.List) -> SugaredValue:
    """`[a, *b, c]`."""
    return ListValue(_items(ctx, node.elts))


def _items(ctx: Context, nodes: list[ast.expr]) -> list[SugaredValue]:
    items: list[SugaredValue] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            items += ctx.expression(node.value).elements(ctx, node)
        else:
            items.append(ctx.expression(node))
    return items


@translates(ast.IfExp)
def choice(ctx: Context, node: ast.IfExp) -> SugaredValue:
    """`a if c else b`. Only the chosen one is computed."""
    expected = ctx.expected
    asked = condition(ctx, node.test)
    ways = [lambda part=part: ctx.expression(part, expected) for part in (node.body, node.orelse)]
    return choose(ctx, node, asked, ways[0], ways[1], expected)


@translates(ast.NamedExpr)
def named(ctx: Context, node: ast.NamedExpr) -> SugaredValue:
    """`name := value`."""
    value = ctx.value(node.value)
    ctx.scope.assign(node.target.id, value)
    return value
