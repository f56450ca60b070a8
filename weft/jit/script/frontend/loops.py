"""Loops: prim::Loop, whose carried values are the names that its body assigns. `break`, `continue` and `return` set a
number that guards what follows.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.ir.graph import Operand, Value
from weft.jit.script.annotations import written
from weft.jit.script.frontend.assignments import assign_target
from weft.jit.script.frontend.branches import (
    BREAKS,
    CONTINUES,
    EXIT,
    RESULT,
    RETURNS,
    STAYS,
    blank,
    branch,
    exit_of,
    join,
)
from weft.jit.script.frontend.conditions import Condition, condition, refine
from weft.jit.script.frontend.context import Context, executes
from weft.jit.script.frontend.exits import assigned_names, last_assignment, leaves_with
from weft.jit.script.frontend.iterables import ENDLESS, iterable
from weft.jit.script.frontend.statements import run
from weft.jit.script.frontend.values import Simple, SugaredValue, TupleValue, Undefined, constant
from weft.types.tensor_type import ANY, BOOL, INT, Type


@executes(ast.Break)
def stop(ctx: Context, node: ast.Break) -> None:
    """`break`."""
    _leave(ctx, node, BREAKS)


@executes(ast.Continue)
def go_on(ctx: Context, node: ast.Continue) -> None:
    """`continue`."""
    _leave(ctx, node, CONTINUES)


def _leave(ctx: Context, node: ast.AST, how: int) -> None:
    ctx.scope.assign(EXIT, constant(how, INT))


@dataclass
class Carried:
    """A name that goes round: its type, and the operand that it comes in with."""

    name: str
    type: Type
    first: Operand


@executes(ast.While)
def while_loop(ctx: Context, node: ast.While) -> None:
    """`while condition:`."""
    if node.orelse:
        return _with_else(ctx, node)
    carried = _carried(ctx, node, node.body, assigned_names([node.test]))
    first = _start_condition(ctx, node)
    if first.known is False:
        return
    _loop(
        ctx,
        node,
        carried,
        constant(ENDLESS, INT),
        first.value.operand,
        lambda index: refine(ctx, first.holds),
        node.test,
    )
    if not leaves_with(node.body, ast.Break):
        refine(ctx, first.fails)


def _start_condition(ctx: Context, node: ast.While) -> Condition:
    return condition(ctx, node.test)


@executes(ast.For)
def for_loop(ctx: Context, node: ast.For) -> None:
    """`for target in items:`; unrolled where the items are known one by one."""
    if node.orelse:
        return _with_else(ctx, node)
    over = iterable(ctx, node.iter)
    if over.items is not None:
        return _unrolled(ctx, node, list(over.items))
    carried = _carried(ctx, node, node.body, assigned_names([node.target]))
    assert over.length is not None

    def enter(index: Simple) -> None:
        assign_target(ctx, node.target, over.element(ctx, node.target, index))

    _loop(ctx, node, carried, over.length, True, enter, None)


def _with_else(ctx: Context, node: ast.For | ast.While) -> None:
    """A loop with an `else:`, which runs where no `break` has left: a variable says so."""
    name = f"left_at_{node.lineno}_{node.col_offset}"
    flag: ast.expr = ast.Name(name, ast.Load())
    breaks = _Breaks(name)
    loop = copy.copy(node)
    loop.body, loop.orelse = [s for one in copy.deepcopy(node.body) for s in breaks._listed(one)], []
    statements: list[ast.stmt] = [
        _assigned(name, False), loop, ast.If(ast.UnaryOp(ast.Not(), flag), list(node.orelse), [])
    ]
    for statement in statements:
        ast.fix_missing_locations(ast.copy_location(statement, node))
    run(ctx, statements)


def _assigned(name: str, value: bool) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))


class _Breaks(ast.NodeTransformer):
    """Sets a variable before each `break` of one loop; those of loops within are theirs."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_For(self, node: ast.For) -> ast.AST:
        node.orelse = [s for one in node.orelse for s in self._listed(one)]
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        node.orelse = [s for one in node.orelse for s in self._listed(one)]
        return node

    def visit_Break(self, node: ast.Break) -> Any:
        return [ast.fix_missing_locations(ast.copy_location(_assigned(self.name, True), node)), node]

    def _listed(self, node: ast.stmt) -> list[ast.stmt]:
        visited = self.visit(node)
        return visited if isinstance(visited, list) else [visited]


def _carried(ctx: Context, node: ast.AST, body: Sequence[ast.stmt], more: Sequence[str]) -> list[Carried]:
    """The names that the body assigns and that have a value before it."""
    carried: list[Carried] = []
    for name in dict.fromkeys([*more, *assigned_names(body)]):
        value = ctx.scope.find(name)
        if not isinstance(value, (Simple, TupleValue)):
            continue
        declared = ctx.widest(name)
        simple = value.as_value(ctx, node, declared)
        kind = declared if declared is not None and simple.type.is_subtype_of(declared) else simple.type
        carried.append(Carried(name, kind, simple.operand))
    return carried


Enter = Callable[[Simple], None]


def _loop(
    ctx: Context,
    node: ast.For | ast.While,
    carried: list[Carried],
    trip: Simple,
    first: Operand,
    enter: Enter,
    test: ast.expr | None,
) -> None:
    """Append prim::Loop, and give the names what it leaves."""
    returns = leaves_with(node.body, ast.Return)
    with ctx.block() as inner:
        index = Simple(inner.param(INT), INT)
        for c in carried:
            ctx.scope.assign(c.name, Simple(inner.param(c.type, c.name), c.type))
        if returns:
            ctx.scope.assign(RESULT, Simple(_waiting(ctx, inner.param(ANY)), ANY))
            inner.param(BOOL)  # whether it has returned; a step that runs has not
        ctx.scope.assign(EXIT, constant(STAYS, INT))
        enter(index)
        ctx.loops += 1
        run(ctx, node.body)
        ctx.loops -= 1
        goes_on = _next(ctx, node, test)
        results: list[Operand] = [goes_on, *(_left(ctx, node, c) for c in carried)]
        if returns:
            result = ctx.scope.find(RESULT)
            assert isinstance(result, Simple)
            results += [result.operand, _has_returned(ctx, node)]
        block = inner.block(results)
        inside = dict(ctx.scope.assigned)
    types = (*(c.type for c in carried), *((ANY, BOOL) if returns else ()))
    before = tuple(c.first for c in carried) + ((_result_before(ctx), False) if returns else ())
    loop = ctx.append(ctx.op("prim::Loop"), (trip.operand, first, before, (), False), types, node, (block,))
    _leave_names(ctx, carried, inside, loop.outputs)
    if returns:
        ctx.scope.assign(RESULT, Simple(_waiting(ctx, loop.outputs[-2]), ANY))
        _exit_by(ctx, node, Simple(loop.outputs[-1], BOOL))


def _waiting(ctx: Context, value: Value) -> Value:
    ctx.pending.append(value)
    return value


def _result_before(ctx: Context) -> Operand:
    result = ctx.scope.find(RESULT)
    return result.operand if isinstance(result, Simple) else blank(ctx)


def _next(ctx: Context, node: ast.AST, test: ast.expr | None) -> Operand:
    """Whether another step follows."""
    left = exit_of(ctx.scope)
    if not isinstance(left, Value):
        if left in (BREAKS, RETURNS):
            return False
        return True if test is None else condition(ctx, test).value.operand
    goes_on = ctx.prim("lt", node, Simple(left, INT), constant(BREAKS, INT))
    if test is None:
        return goes_on.operand
    with ctx.block() as inner:
        again = inner.block((condition(ctx, test).value.operand,))
    with ctx.block() as inner:
        never = inner.block((False,))
    return ctx.append(ctx.op("prim::If"), (goes_on.operand,), (BOOL,), node, (again, never)).output


def _left(ctx: Context, node: ast.AST, c: Carried) -> Operand:
    """What the body leaves for a carried name. Raises CompileError if it is of another type."""
    value = ctx.scope.find(c.name)
    if isinstance(value, Undefined):
        ctx.fail(node, value.reason)
    assert value is not None
    simple = value.as_value(ctx, node, c.type)
    if not simple.type.is_subtype_of(c.type):
        ctx.fail(
            last_assignment(node, c.name) or node,
            f"Variable '{c.name}' previously had type {written(c.type)} but is now being assigned to a value of type "
            f"{written(simple.type)}: what goes round in a loop keeps its type. Give it that type before the loop: "
            f"`{c.name}: {written(simple.type)} = ...`",
        )
    return simple.operand


def _has_returned(ctx: Context, node: ast.AST) -> Operand:
    left = exit_of(ctx.scope)
    if not isinstance(left, Value):
        return left == RETURNS
    return ctx.prim("eq", node, Simple(left, INT), constant(RETURNS, INT)).operand


def _leave_names(
    ctx: Context, carried: list[Carried], inside: dict[str, SugaredValue], outputs: tuple[Value, ...]
) -> None:
    for c, value in zip(carried, outputs, strict=False):
        value.name = c.name
        ctx.scope.assign(c.name, Simple(value, c.type))
    carried_names = {c.name for c in carried}
    for name in inside:
        if name not in carried_names and not name.startswith("$"):
            ctx.scope.assign(
                name,
                Undefined(
                    f"undefined value {name}: it is defined only in the body of a loop, which may not run. Give it "
                    f"a value before the loop"
                ),
            )


def _exit_by(ctx: Context, node: ast.AST, returned: Simple) -> None:
    """Behind a loop that may have returned."""
    left = exit_of(ctx.scope)
    assert left == STAYS, "a loop is not reached where something has left"
    with ctx.block() as inner:
        yes = inner.block((RETURNS,))
    with ctx.block() as inner:
        no = inner.block((STAYS,))
    conditional = ctx.append(ctx.op("prim::If"), (returned.operand,), (INT,), node, (yes, no))
    ctx.scope.assign(EXIT, Simple(conditional.output, INT))


# ---- loops over what is known
def _unrolled(ctx: Context, node: ast.For, items: list[SugaredValue]) -> None:
    """The body once for each item."""
    _step(ctx, node, items)
    _forget(ctx, node, BREAKS)


def _step(ctx: Context, node: ast.For, items: list[SugaredValue]) -> None:
    if not items:
        return
    assign_target(ctx, node.target, items[0])
    ctx.loops += 1
    run(ctx, node.body)
    ctx.loops -= 1
    _forget(ctx, node, CONTINUES)
    left = exit_of(ctx.scope)
    if not isinstance(left, Value):
        if left == STAYS:
            _step(ctx, node, items[1:])
        return
    if len(items) == 1:
        return

    def rest() -> None:
        ctx.scope.assign(EXIT, constant(STAYS, INT))
        _step(ctx, node, items[1:])

    stays = ctx.prim("eq", node, Simple(left, INT), constant(STAYS, INT))
    branches = [branch(ctx, {}, rest), branch(ctx, {}, lambda: None)]
    branches[1].left_before = BREAKS if ctx.loops or leaves_with(node.body, ast.Break) else RETURNS
    join(ctx, node, stays.operand, branches)


def _forget(ctx: Context, node: ast.AST, how: int) -> None:
    """What was left by `how` goes on here."""
    left = exit_of(ctx.scope)
    if not isinstance(left, Value):
        if left == how:
            ctx.scope.assign(EXIT, constant(STAYS, INT))
        return
    with ctx.block() as inner:
        yes = inner.block((STAYS,))
    with ctx.block() as inner:
        no = inner.block((left,))
    asked = ctx.prim("eq", node, Simple(left, INT), constant(how, INT))
    conditional = ctx.append(ctx.op("prim::If"), (asked.operand,), (INT,), node, (yes, no))
    ctx.scope.assign(EXIT, Simple(conditional.output, INT))
