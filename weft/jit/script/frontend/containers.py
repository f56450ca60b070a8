"""Lists, dicts and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from weft.jit.script.frontend.assignments import assign_target
from weft.jit.script.frontend.branches import Branch, join, joined
from weft.jit.script.frontend.conditions import condition, refine
from weft.jit.script.frontend.context import TABLES, Context, translates
from weft.jit.script.frontend.iterables import iterable, loop_over
from weft.jit.script.frontend.values import Simple, SugaredValue
from weft.types.tensor_type import (
    ANY,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    Type,
    dict_of,
    list_of,
    members_of,
    union_of,
)


def _wanted(expected: Type | None, kind: type[Type]) -> Any:
    inner = expected.inner if isinstance(expected, OptionalType) else expected
    return inner if isinstance(inner, kind) else None


def new_list(ctx: Context, node: ast.AST, items: Sequence[SugaredValue], expected: Type | None) -> Simple:
    """A new list of values. Raises CompileError if they are not of one type."""
    wanted = _wanted(expected, ListType)
    values = [item.as_value(ctx, node, wanted.element if wanted else None) for item in items]
    if wanted is not None:
        values = [ctx.stored(v, wanted.element, node, "an element of the list") for v in values]
        return _made(ctx, node, values, wanted, str(wanted))
    kind = _one_type(ctx, node, [v.type for v in values], "list")
    return _made(ctx, node, values, None if kind is None else list_of(kind), "")


def _made(ctx: Context, node: ast.AST, values: Sequence[Simple], kind: Type | None, text: str) -> Simple:
    constructed = ctx.emit(
        ctx.op("prim::ListConstruct"),
        (tuple(v.operand for v in values), text if (kind is not None and values == []) or text else ""),
        node,
    )
    return Simple(constructed.operand, kind or constructed.type)


def _one_type(ctx: Context, node: ast.AST, types: Sequence[Type], what: str) -> Type | None:
    """The type that values have in common, None for none of them."""
    if not types:
        return None
    common: Type = types[0]
    for kind in types[1:]:
        both = joined(common, kind)
        if both is None and (what not in _MAY_BE_MIXED or _holds_tensors(common) or _holds_tensors(kind)):
            ctx.fail(
                node,
                f"the elements of a {what} must be of one type, are {common} and {kind}; "
                "write a tuple, or convert them",
            )
        common = both or union_of(common, kind)
    return common


_MAY_BE_MIXED = ("list", "dict")  # a dict's keys may not


def _holds_tensors(kind: Type) -> bool:
    return any(isinstance(m, TensorType) for m in members_of(kind))


TABLES.new_list = new_list


@translates(ast.Dict)
def dict_display(ctx: Context, node: ast.Dict) -> SugaredValue:
    """`{key: value}`."""
    wanted = _wanted(ctx.expected, DictType)
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            ctx.fail(value, "** in a dict cannot be compiled; use update()")
    keys = [ctx.value(k) for k in node.keys if k is not None]
    values = [ctx.value(v, wanted.value if wanted else None) for v in node.values]
    if wanted is not None:
        keys, values = (
            [ctx.stored(k, wanted.key, node, "a key") for k in keys],
            [ctx.stored(v, wanted.value, node, "a value of the dict") for v in values],
        )
        kind: Type | None = wanted
    else:
        one, other = (
            _one_type(ctx, node, [k.type for k in keys], "dict's keys"),
            _one_type(ctx, node, [v.type for v in values], "dict"),
        )
        kind = None if one is None or other is None else dict_of(one, other)
    return _made_dict(ctx, node, keys, values, kind, str(wanted) if wanted else "")


def _made_dict(
    ctx: Context, node: ast.AST, keys: Sequence[Simple], values: Sequence[Simple], kind: Type | None, text: str
) -> Simple:
    constructed = ctx.emit(
        ctx.op("prim::DictConstruct"), (tuple(k.operand for k in keys), tuple(v.operand for v in values), text), node
    )
    return Simple(constructed.operand, kind or constructed.type)


# ---- comprehensions
@translates(ast.ListComp, ast.GeneratorExp)
def list_comprehension(ctx: Context, node: ast.ListComp | ast.GeneratorExp) -> SugaredValue:
    """`[f(x) for x in items if c]`: a loop that appends. So is a generator, as an argument that is read whole."""
    wanted = _wanted(ctx.expected, ListType)
    kind: list[Type] = [wanted.element] if wanted else []
    construct = ctx.append(ctx.op("prim::ListConstruct"), ((), ""), (ANY,), node)

    def add() -> None:
        item = ctx.value(node.elt, kind[0] if kind else None)
        item = ctx.stored(item, kind[0] if wanted else None, node.elt, "an element of the list")
        kind.append(item.type)
        construct.output.type = list_of(kind[0])
        if not item.type.is_subtype_of(kind[0]):
            ctx.fail(node.elt, f"the elements of a list must be of one type, are {kind[0]} and {item.type}")
        ctx.prim("append", node, Simple(construct.output, construct.output.type), item)

    _generate(ctx, node, node.generators, add)
    if not kind:
        kind.append(list_of(ANY))
    construct.output.type = list_of(kind[0])
    construct.args = ((), str(construct.output.type))
    return Simple(construct.output, construct.output.type)


@translates(ast.DictComp)
def dict_comprehension(ctx: Context, node: ast.DictComp) -> SugaredValue:
    """`{k: f(x) for x in items if c}`."""
    wanted = _wanted(ctx.expected, DictType)
    kind = [wanted] if wanted else []
    construct = ctx.append(ctx.op("prim::DictConstruct"), ((), (), ""), (ANY,), node)

    def add() -> None:
        key, value = ctx.value(node.key), ctx.value(node.value, kind[0].value if kind else None)
        key = ctx.stored(key, wanted.key if wanted else None, node.key, "a key")
        value = ctx.stored(value, wanted.value if wanted else None, node.value, "a value of the dict")
        kind.append(dict_of(key.type, value.type))
        construct.output.type = kind[0]
        ctx.prim("setitem", node, Simple(construct.output, kind[0]), key, value)

    _generate(ctx, node, node.generators, add)
    if kind:
        construct.output.type = kind[0]
    construct.args = ((), (), str(construct.output.type))
    return Simple(construct.output, construct.output.type)


def _generate(ctx: Context, node: ast.AST, generators: list[ast.comprehension], add: Callable[[], None]) -> None:
    """The loops of a comprehension, one inside of the other, and `add` innermost."""
    if not generators:
        add()
        return
    first, *rest = generators

    def body(item: SugaredValue) -> None:
        assign_target(ctx, first.target, item)
        _filtered(ctx, node, list(first.ifs), lambda: _generate(ctx, node, rest, add))

    outer = ctx.scope
    names = dict(outer.assigned)
    loop_over(ctx, node, iterable(ctx, first.iter), body)
    outer.assigned.clear()
    outer.assigned.update(names)  # its variables are its own


def _filtered(ctx: Context, node: ast.AST, tests: list[ast.expr], then: Callable[[], None]) -> None:
    if not tests:
        then()
        return
    asked = condition(ctx, tests[0])
    if asked.known is not None:
        if asked.known:
            _filtered(ctx, node, tests[1:], then)
        return
    branches: list[Branch] = []
    for i, names in enumerate((asked.holds, asked.fails)):
        with ctx.block() as inner:
            refine(ctx, names)
            if i == 0:
                _filtered(ctx, node, tests[1:], then)
            ctx.scope.assigned.clear()
            branches.append(Branch(inner, ctx.scope))
    join(ctx, node, asked.value.operand, branches)
