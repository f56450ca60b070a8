"""Statements other than loops and assignments, and the order of them: what stands behind a branch that may leave goes
where it is reached.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from weft.ir.graph import Value
from weft.jit.script.annotations import written
from weft.jit.script.frontend.advice import converting, instead_of
from weft.jit.script.frontend.assignments import assign_target
from weft.jit.script.frontend.branches import BREAKS, EXIT, RESULT, RETURNS, STAYS, branch, exit_of, join
from weft.jit.script.frontend.classes.script_classes import description_of_value, magic_or_refuse
from weft.jit.script.frontend.conditions import condition, refine
from weft.jit.script.frontend.context import STATEMENTS, Context, executes
from weft.jit.script.frontend.exits import always_leaves, may_leave
from weft.jit.script.frontend.values import NOTHING, Simple, SugaredValue, constant
from weft.types.tensor_type import BOOL, INT, STR


def run(ctx: Context, body: Sequence[ast.stmt]) -> None:
    """Compile statements in order, up to one that always leaves."""
    for i, statement in enumerate(body):
        rest = body[i + 1 :]
        if isinstance(statement, ast.If) and rest and may_leave(statement):
            return _with_rest(ctx, statement, rest)
        _statement(ctx, statement)
        left = exit_of(ctx.scope)
        if isinstance(left, Value):
            return guarded(ctx, statement, rest)
        if left != STAYS:
            return


def _statement(ctx: Context, node: ast.stmt) -> None:
    execute = STATEMENTS.get(type(node))
    if execute is None:
        ctx.fail(node, instead_of(node))
    execute(ctx, node)


def _with_rest(ctx: Context, node: ast.If, rest: Sequence[ast.stmt]) -> None:
    """A choice that may leave, with what follows it: if one side always leaves, the rest belongs to the other one."""
    first, second = always_leaves(node.body), always_leaves(node.orelse)
    if first != second:
        return choose_statements(
            ctx, node, [*node.body, *([] if first else rest)], [*node.orelse, *(rest if first else [])]
        )
    choose_statements(ctx, node, node.body, node.orelse)
    left = exit_of(ctx.scope)
    if isinstance(left, Value):
        guarded(ctx, node, rest)
    elif left == STAYS:
        run(ctx, rest)


def guarded(ctx: Context, node: ast.AST, rest: Sequence[ast.stmt]) -> None:
    """Statements that run only where nothing before has left."""
    if not rest:
        return
    left = ctx.scope.find(EXIT)
    assert isinstance(left, Simple)
    stays = ctx.prim("eq", node, left, constant(STAYS, INT))

    def reached() -> None:
        ctx.scope.assign(EXIT, constant(STAYS, INT))
        run(ctx, rest)

    branches = [branch(ctx, dict(ctx.scope.stays), reached), branch(ctx, {}, lambda: None)]
    branches[1].left_before = BREAKS if ctx.loops else RETURNS
    join(ctx, node, stays.operand, branches)


@executes(ast.If)
def choice(ctx: Context, node: ast.If) -> None:
    """`if`, `elif`, `else`."""
    choose_statements(ctx, node, node.body, node.orelse)


def choose_statements(ctx: Context, node: ast.If, body: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> None:
    """One of two blocks; only the one that runs is compiled where the condition is known."""
    asked = condition(ctx, node.test)
    if asked.known is not None:
        refine(ctx, asked.holds if asked.known else asked.fails)
        return run(ctx, body if asked.known else other)
    branches = [branch(ctx, asked.holds, lambda: run(ctx, body)), branch(ctx, asked.fails, lambda: run(ctx, other))]
    join(ctx, node, asked.value.operand, branches)


@executes(ast.Return)
def leave(ctx: Context, node: ast.Return) -> None:
    """`return value`."""
    wanted = ctx.return_type
    value = NOTHING if node.value is None else ctx.value(node.value, wanted)
    if wanted is not None:
        if not ctx.converts(value.type, wanted) and not ctx.implements(value, wanted, node):
            ctx.fail(
                node,
                f"Return value was annotated as having type {written(wanted)} but is actually of type "
                f"{written(value.type)}{converting(value.type, wanted)}",
            )
        value = ctx.coerced(value, wanted, node)
    ctx.returned.append((value.type, node))
    ctx.scope.assign(RESULT, value)
    ctx.scope.assign(EXIT, constant(RETURNS, INT))


@executes(ast.Expr)
def evaluate(ctx: Context, node: ast.Expr) -> None:
    """A value that nobody keeps; a docstring."""
    if not isinstance(node.value, ast.Constant):
        ctx.expression(node.value)


@executes(ast.Pass)
def nothing(ctx: Context, node: ast.Pass) -> None:
    """`pass`."""


@executes(ast.Assert)
def check(ctx: Context, node: ast.Assert) -> None:
    """`assert condition, message`. Names are of narrower types behind it."""
    asked = condition(ctx, node.test)

    def fails() -> None:
        refine(ctx, asked.fails)
        message = constant("", STR) if node.msg is None else ctx.prim("str", node, ctx.value(node.msg))
        _raise(ctx, node, message, "AssertionError")

    if asked.known is None:
        with ctx.block() as inner:
            held = inner.block(())
        with ctx.block() as inner:
            fails()
            failed = inner.block(())
        ctx.append(ctx.op("prim::If"), (asked.value.operand,), (), node, (held, failed))
    elif not asked.known:
        return fails()
    refine(ctx, asked.holds)


@executes(ast.With)
def within(ctx: Context, node: ast.With) -> None:
    """`with weft.no_grad():`, `with Class() as name:`."""
    from weft.jit.script.frontend.python.foreign import (  # the front end's objects know statements
        GradMode,
        NamedBlock,
    )

    leaving: list[Callable[[], object]] = []
    for item in node.items:
        mode = ctx.expression(item.context_expr)
        if isinstance(mode, GradMode) and item.optional_vars is None:
            before = ctx.prim("set_grad_enabled", node, constant(mode.mode, BOOL))
            leaving.append(partial(ctx.prim, "set_grad_enabled", node, before))
        elif isinstance(mode, NamedBlock) and item.optional_vars is None:
            continue  # a profiler shows the operators in it
        elif description_of_value(mode) is not None:
            entered = magic_or_refuse(ctx, item.context_expr, mode, "__enter__")
            leaving.append(partial(_leave_object, ctx, item.context_expr, mode))
            _note_entered(ctx, item.context_expr, mode)
            if item.optional_vars is not None:
                assign_target(ctx, item.optional_vars, entered)
        else:
            ctx.fail(
                item.context_expr,
                "of `with` there are weft.no_grad(), weft.enable_grad(), weft.profiler.record_function(name), and "
                "objects with __enter__ and __exit__",
            )
    run(ctx, node.body)
    for leave_one in reversed(leaving):
        leave_one()


def _note_entered(ctx: Context, node: ast.AST, value: SugaredValue) -> None:
    owner = description_of_value(value)
    assert owner is not None
    if not owner.has_method("__exit__"):
        magic_or_refuse(ctx, node, value, "__exit__")
    name = ctx.program.link(ctx.program.method_of_class(ctx, node, owner, "__exit__"))
    ctx.emit(ctx.op("prim::Enter"), (name, value.as_value(ctx, node).operand), node, ())


def _leave_object(ctx: Context, node: ast.AST, value: SugaredValue) -> None:
    ctx.emit(ctx.op("prim::Exit"), (), node, ())
    magic_or_refuse(ctx, node, value, "__exit__", [NOTHING] * 3)


@executes(ast.Raise)
def stop(ctx: Context, node: ast.Raise) -> None:
    """`raise ValueError("text")`."""
    from weft.jit.script.frontend.python.foreign import (  # the front end's objects know statements
        ExceptionClass,
        RaisedException,
    )

    if node.exc is None:
        ctx.fail(node, "`raise` alone has nothing to raise: a scripted function catches no exceptions")
    raised = ctx.expression(node.exc)
    if isinstance(raised, ExceptionClass):
        raised = RaisedException(raised.name, constant("", STR))
    if not isinstance(raised, RaisedException):
        ctx.fail(node, "only Python's exceptions can be raised: `raise ValueError(...)`")
    _raise(ctx, node, raised.message, raised.name)


def _raise(ctx: Context, node: ast.AST, message: Simple, kind: str) -> None:
    ctx.prim("RaiseException", node, message, constant(kind, STR))
    ctx.scope.assign(EXIT, constant(RETURNS, INT))


@executes(ast.FunctionDef)
def local_function(ctx: Context, node: ast.FunctionDef) -> None:
    """A function within a function. It may use its parameters, and what is constant around it."""
    if node.decorator_list:
        ctx.fail(node.decorator_list[0], "a function within a scripted function takes no decorators")
    ctx.scope.assign(node.name, ctx.program.local_function(ctx, node))
