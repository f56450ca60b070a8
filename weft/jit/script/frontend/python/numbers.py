"""Python's builtin functions on numbers, and on what holds them: `abs`, `min`, `sum`, `all`, `int`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from weft.jit.script.frontend.branches import choose
from weft.jit.script.frontend.classes.script_classes import magic
from weft.jit.script.frontend.conditions import Condition, truth
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Args, Builtin, Kwargs
from weft.jit.script.frontend.matching import call_operator
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, TupleValue, constant
from weft.types import tensor_type as tt
from weft.types.tensor_type import ListType, TensorType, TupleType


def values_of(ctx: Context, node: ast.AST, args: Args) -> list[Simple]:
    """The arguments as values of the graph."""
    return [a.as_value(ctx, node) for a in args]


def _extremum(name: str) -> Builtin:
    def compile(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
        if len(args) > 1:
            extremum = args[0].as_value(ctx, node)
            for other in args[1:]:
                extremum = _two(ctx, node, name, extremum, other.as_value(ctx, node))
            return extremum
        (value,) = args
        simple = (ListValue(value.items) if isinstance(value, TupleValue) else value).as_value(ctx, node)
        if isinstance(simple.type, TensorType):
            return call_operator(ctx, node, f"aten::{name}", [simple])
        return ctx.prim(
            f"{name}_of", node, ctx.prim("list", node, simple) if isinstance(simple.type, TupleType) else simple
        )

    return Builtin(name, compile, (1, 1 << 20), ())


def _two(ctx: Context, node: ast.AST, name: str, a: Simple, b: Simple) -> Simple:
    if {a.type, b.type} == {tt.INT, tt.FLOAT}:
        a, b = (ctx.coerced(v, tt.FLOAT, node) for v in (a, b))
    if isinstance(a.type, TensorType) and isinstance(b.type, TensorType):
        return call_operator(ctx, node, f"aten::{name}", [a, b]).as_value(ctx, node)
    if isinstance(a.type, (ListType, TupleType)):
        decides = ctx.prim("lt" if name == "min" else "gt", node, b, a)
        return choose(ctx, node, Condition(decides), lambda: b, lambda: a).as_value(ctx, node)
    return ctx.prim(name, node, a, b)


def _absolute(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    returned = magic(ctx, node, args[0], "__abs__")
    if returned is not None:
        return returned
    (value,) = values_of(ctx, node, args)
    return (
        call_operator(ctx, node, "aten::abs", [value])
        if isinstance(value.type, TensorType)
        else ctx.prim("abs", node, value)
    )


def _round(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    values = values_of(ctx, node, (*args, *kwargs.values()))
    return (
        call_operator(ctx, node, "aten::round", values)
        if isinstance(values[0].type, TensorType)
        else ctx.prim("round", node, *values)
    )


def _pow(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    from weft.jit.script.frontend.operations import compute  # operations stand beside this module

    base, exponent = args
    return compute(ctx, node, ast.Pow, base, exponent)


def _sum(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    value = args[0]
    if isinstance(value, Simple) and isinstance(value.type, TupleType):
        value = TupleValue(value.elements(ctx, node))
    if isinstance(value, TupleValue) and any(isinstance(s.type, TensorType) for s in values_of(ctx, node, value.items)):
        return _sum_of_tensors(ctx, node, [*args[1:], *kwargs.values(), *value.items])
    simple = (ListValue(value.items) if isinstance(value, TupleValue) else value).as_value(ctx, node)
    if isinstance(simple.type, TensorType):
        return call_operator(ctx, node, "aten::sum", [simple, ListValue([constant(0, tt.INT)])])
    return ctx.prim("sum", node, simple, *values_of(ctx, node, (*args[1:], *kwargs.values())))


def _sum_of_tensors(ctx: Context, node: ast.AST, values: Args) -> SugaredValue:
    """One after the other, as Python's sum adds them."""
    from weft.jit.script.frontend.operations import compute  # operations stand beside this module

    total: SugaredValue = values[0]
    for value in values[1:]:
        total = compute(ctx, node, ast.Add, total, value)
    return total


def _over_all(name: str) -> Callable[[Context, ast.AST, Args, Kwargs], SugaredValue]:
    def compile(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
        (value,) = args
        simple = (ListValue(value.items) if isinstance(value, TupleValue) else value).as_value(ctx, node)
        if isinstance(simple.type, TensorType):
            return truth(ctx, node, call_operator(ctx, node, f"aten::{name}", [simple]).as_value(ctx, node))
        return ctx.prim(name, node, simple)

    return compile


def _conversion(name: str) -> Builtin:
    empty = {"int": (0, tt.INT), "float": (0.0, tt.FLOAT), "str": ("", tt.STR), "complex": (0j, tt.COMPLEX)}[name]

    def compile(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
        returned = magic(ctx, node, args[0], f"__{name}__") if len(args) == 1 else None
        if returned is not None:
            return returned
        values = values_of(ctx, node, args)
        if name == "int" and len(values) == 2:
            return ctx.prim("int_of_base", node, *values)
        return constant(*empty) if not values else ctx.prim(name, node, *values)

    return Builtin(name, compile, (0, 2), ())


NUMBERS: dict[str, SugaredValue] = {
    "abs": Builtin("abs", _absolute, (1, 1), ()),
    "round": Builtin("round", _round, (1, 2), ("ndigits",)),
    "pow": Builtin("pow", _pow, (2, 2), ()),
    "sum": Builtin("sum", _sum, (1, 2), ("start",)),
    **{name: Builtin(name, _over_all(name), (1, 1), ()) for name in ("any", "all")},
    **{name: _extremum(name) for name in ("min", "max")},
    **{name: _conversion(name) for name in ("int", "float", "str", "complex")},
}
