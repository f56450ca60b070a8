"""f-strings."""

from __future__ import annotations

import ast

from weft.jit.script.frontend.context import Context, translates
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, constant
from weft.types.tensor_type import STR

_CONVERSIONS = {-1: "", 115: "s", 114: "r", 97: "a"}


@translates(ast.JoinedStr)
def joined_text(ctx: Context, node: ast.JoinedStr) -> SugaredValue:
    """`f"{x:.2f} of {n}"`."""
    parts = [_part(ctx, node, part) for part in node.values]
    if all(p.is_constant for p in parts):
        return constant("".join(p.operand for p in parts), STR)
    return ctx.prim("join", node, constant("", STR), ListValue(parts).as_value(ctx, node))


def _part(ctx: Context, node: ast.AST, part: ast.expr) -> Simple:
    if isinstance(part, ast.Constant):
        return constant(part.value, STR)
    assert isinstance(part, ast.FormattedValue)
    value = ctx.value(part.value)
    spec = (
        joined_text(ctx, part.format_spec).as_value(ctx, node)
        if isinstance(part.format_spec, ast.JoinedStr)
        else constant("", STR)
    )
    return ctx.prim("format_value", part, value, spec, constant(_CONVERSIONS[part.conversion], STR))
