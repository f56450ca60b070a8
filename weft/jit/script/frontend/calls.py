"""Calls: arguments, and what is asked of what is called."""

from __future__ import annotations

import ast

from weft.jit.script.frontend.context import Context, translates
from weft.jit.script.frontend.functions import TypedBuiltin
from weft.jit.script.frontend.values import SugaredValue


@translates(ast.Call)
def call(ctx: Context, node: ast.Call) -> SugaredValue:
    """`f(a, *b, name=c)`."""
    expected = ctx.expected
    called = ctx.expression(node.func)
    if isinstance(called, TypedBuiltin):
        return called.compile(ctx, node, expected)
    args: list[SugaredValue] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            args += ctx.expression(arg.value).elements(ctx, arg)
        else:
            args.append(ctx.expression(arg))
    kwargs: dict[str, SugaredValue] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            ctx.fail(node, "**kwargs cannot be compiled; name each argument")
        if keyword.arg in kwargs:
            ctx.fail(node, f"keyword argument {keyword.arg!r} is given twice")
        kwargs[keyword.arg] = ctx.expression(keyword.value)
    return called.call(ctx, node, args, kwargs, 1)
