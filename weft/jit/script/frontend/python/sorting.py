"""`sorted` and `list.sort`: by the language's own order where elements have one; else, and by a key, in steps that are
compiled for the elements at hand.
"""

from __future__ import annotations

import ast

from weft.jit.script.frontend.classes.script_classes import description_of_value, magic_or_refuse
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Scripted
from weft.jit.script.frontend.iterables import iterated, loop_over
from weft.jit.script.frontend.values import NOTHING, Simple, SugaredValue
from weft.types.tensor_type import INT, ClassType, ListType, list_of

# Binary insertion: stable, reversed too, as Python's order is.
_BY_KEYS = """
def sorted_by(items: Items, keys: Keys, reverse: bool) -> Items:
    order: Places = []
    for i in range(len(items)):
        low = 0
        high = len(order)
        while low < high:
            middle = (low + high) // 2
            if reverse:
                before = keys[order[middle]] < keys[i]
            else:
                before = keys[i] < keys[order[middle]]
            if before:
                high = middle
            else:
                low = middle + 1
        order.insert(low, i)
    found: Items = []
    for i in order:
        found.append(items[i])
    return found
"""


def sorted_list(ctx: Context, node: ast.AST, items: Simple, key: SugaredValue | None, reverse: Simple) -> Simple:
    """A new list of the elements, in order."""
    assert isinstance(items.type, ListType)
    if key is None and not isinstance(items.type.element, ClassType):
        return ctx.prim("sorted", node, items, reverse)
    if key is None:
        _refuse_without_order(ctx, node, items)
    keys = items if key is None else _keys(ctx, node, items, key)
    names = {"Items": items.type, "Keys": keys.type, "Places": list_of(INT)}
    program = ctx.program.program_of_text(_BY_KEYS, names)
    return Scripted(program).call(ctx, node, [items, keys, reverse], {}, 1).as_value(ctx, node)


def sort(ctx: Context, node: ast.AST, items: Simple, key: SugaredValue | None, reverse: Simple) -> Simple:
    """Put the elements of a list into order."""
    assert isinstance(items.type, ListType)
    if key is None and not isinstance(items.type.element, ClassType):
        return ctx.prim("sort", node, items, reverse)
    ordered = sorted_list(ctx, node, items, key, reverse)
    ctx.prim("clear", node, items)
    ctx.prim("extend", node, items, ordered)
    return NOTHING


def _refuse_without_order(ctx: Context, node: ast.AST, items: Simple) -> None:
    assert isinstance(items.type, ListType)
    owner = description_of_value(Simple(None, items.type.element))
    if owner is not None and not owner.has_method("__lt__"):
        magic_or_refuse(ctx, node, Simple(None, items.type.element), "__lt__")


def _keys(ctx: Context, node: ast.AST, items: Simple, key: SugaredValue) -> Simple:
    """The key of each element."""
    construct = ctx.append(ctx.op("prim::ListConstruct"), ((), ""), (list_of(INT),), node)

    def add(item: SugaredValue) -> None:
        value = key.call(ctx, node, [item], {}, 1).as_value(ctx, node)
        construct.output.type = list_of(value.type)
        ctx.prim("append", node, Simple(construct.output, construct.output.type), value)

    loop_over(ctx, node, iterated(ctx, node, items), add)
    construct.args = ((), str(construct.output.type))
    return Simple(construct.output, construct.output.type)
