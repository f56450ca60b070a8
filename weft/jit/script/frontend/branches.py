"""Branches: two blocks, of which one runs, and the names that both leave."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from weft.ir.builder import Builder, memo_key
from weft.ir.graph import Block, Node, Operand, Value
from weft.jit.script.annotations import written
from weft.jit.script.frontend.conditions import Condition, refine
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.scope import Scope
from weft.jit.script.frontend.values import Simple, SugaredValue, TupleValue, Undefined, constant
from weft.types.tensor_type import ANY, INT, STR, Type, unify

EXIT, RESULT = "$exit", "$result"  # names that no program has: how the block is left, and with what
STAYS, CONTINUES, BREAKS, RETURNS = range(4)


def exit_of(scope: Scope) -> Operand:
    """How the statements so far leave a block: one of the four numbers, or a value of the graph that is one."""
    exit_value = scope.find(EXIT)
    return exit_value.operand if isinstance(exit_value, Simple) else STAYS


@dataclass
class Branch:
    """A block that has been compiled: its builder, its names, and whether the code behind it is reached from it."""

    builder: Builder
    scope: Scope
    left_before: int = STAYS  # it stands for having left in this way before

    @property
    def leaves(self) -> int:
        """How it surely leaves, or STAYS."""
        exit_value = exit_of(self.scope)
        return self.left_before or (STAYS if isinstance(exit_value, Value) else int(exit_value))


def choose(
    ctx: Context,
    node: ast.AST,
    asked: Condition,
    first: Callable[[], SugaredValue],
    second: Callable[[], SugaredValue],
    expected: Type | None = None,
) -> SugaredValue:
    """The value of one of two expressions. Raises CompileError if their types have nothing in common, and are not both
    of the type that is expected.
    """
    if asked.known is not None:
        with _refined(ctx, asked.holds if asked.known else asked.fails):
            return (first if asked.known else second)()
    outer = ctx.scope
    values: list[Simple] = []
    branches: list[Branch] = []
    for names, expression in ((asked.holds, first), (asked.fails, second)):
        with ctx.block() as inner:
            refine(ctx, names)
            values.append(expression().as_value(ctx, node))
            branches.append(Branch(inner, ctx.scope))
    kind = joined(values[0].type, values[1].type)
    if kind is None and expected is not None and all(v.type.is_subtype_of(expected) for v in values):
        kind = expected
    if kind is None:
        ctx.fail(
            node,
            f"the two values of a choice must be of one type, are {written(values[0].type)} and "
            f"{written(values[1].type)}",
        )
    conditional = _append(ctx, node, asked.value.operand, branches, [(kind, values[0].operand, values[1].operand)])
    assert ctx.scope is outer
    return Simple(conditional.output, kind)


def raise_if(ctx: Context, node: ast.AST, asked: Simple, text: str, error: str) -> None:
    """One of Python's exceptions, where a condition holds."""
    with ctx.block() as inner:
        ctx.prim("RaiseException", node, constant(text, STR), constant(error, STR))
        raising = inner.block(())
    with ctx.block() as inner:
        going_on = inner.block(())
    ctx.append(ctx.op("prim::If"), (asked.operand,), (), node, (raising, going_on))


@contextmanager
def _refined(ctx: Context, names: dict[str, Type]) -> Iterator[None]:
    before = dict(ctx.scope.refined)
    refine(ctx, names)
    try:
        yield
    finally:
        ctx.scope.refined = before


def joined(a: Type, b: Type) -> Type | None:
    """The type of a value that is of one type or the other; None where they have nothing in common. A number stays what
    it is: int and float differ.
    """
    if a is b:
        return a
    unified = unify(a, b)
    if unified is ANY and ANY not in (a, b):
        return None
    return (
        None
        if str(unified).startswith("Number") and "Number" not in (str(a), str(b), str(a) + "?", str(b) + "?")
        else unified
    )


def branch(ctx: Context, names: dict[str, Type], body: Callable[[], None]) -> Branch:
    """Compile statements into a block of their own."""
    with ctx.block() as inner:
        refine(ctx, names)
        body()
        return Branch(inner, ctx.scope)


def join(ctx: Context, node: ast.AST, asked: Operand, branches: list[Branch]) -> None:
    """Append prim::If over the branches, and give the names that they assign what the branches leave."""
    names = dict.fromkeys(name for b in branches for name in b.scope.assigned)
    results: list[tuple[Type, Operand, Operand]] = []
    places: dict[str, int] = {}
    kept: dict[str, SugaredValue] = {}
    for name in names:
        one = _joined_name(ctx, node, name, branches)
        if isinstance(one, SugaredValue):
            kept[name] = one
        else:
            places[name] = len(results)
            results.append(one)
    conditional = _append(ctx, node, asked, branches, results)
    for name, place in places.items():
        kind = results[place][0]
        conditional.outputs[place].name = name if not name.startswith("$") else ""
        kept[name] = Simple(conditional.outputs[place], kind)
        if name == RESULT:
            ctx.pending.append(conditional.outputs[place])
    for name, value in kept.items():
        ctx.scope.assign(name, value)
    for name, place in places.items():
        narrower = _type_where_it_stays(name, branches)
        if narrower is not None and narrower is not results[place][0]:
            ctx.scope.stays[name] = narrower


def _type_where_it_stays(name: str, branches: list[Branch]) -> Type | None:
    """The type of a name where no branch has been left by `break`, `continue` or `return`."""
    kind: Type | None = None
    for b in branches:
        meaning = b.scope.find(name)
        if b.leaves == STAYS and isinstance(meaning, Simple):
            own = b.scope.stays.get(name, meaning.type)
            kind = own if kind is None else joined(kind, own)
        elif b.leaves == STAYS:
            return None
    return kind


def _append(
    ctx: Context, node: ast.AST, asked: Operand, branches: list[Branch], results: list[tuple[Type, Operand, Operand]]
) -> Node:
    blocks: list[Block] = [b.builder.block([r[1 + i] for r in results]) for i, b in enumerate(branches)]
    return ctx.append(ctx.op("prim::If"), (asked,), tuple(r[0] for r in results), node, (blocks[0], blocks[1]))


def _joined_name(
    ctx: Context, node: ast.AST, name: str, branches: list[Branch]
) -> SugaredValue | tuple[Type, Operand, Operand]:
    """What a name stands for behind the branches: one object, or a result of the node with its two operands."""
    if name == RESULT:
        operands = [_result_operand(ctx, b) for b in branches]
        return (ANY, operands[0], operands[1])
    if name == EXIT:
        if all(b.leaves == RETURNS for b in branches):  # one of them because it was left before
            return constant(RETURNS, INT)
        first, second = (exit_of(b.scope) for b in branches)
        return constant(first, INT) if not isinstance(first, Value) and first is second else (INT, first, second)
    meanings = [b.scope.find(name) for b in branches]
    for i, b in enumerate(branches):
        if b.leaves == RETURNS or (
            b.leaves != STAYS and meanings[i] is None
        ):  # nobody behind asks what that branch leaves
            return (
                _only(ctx, node, name, branches, 1 - i)
                if branches[1 - i].leaves != RETURNS
                else Undefined(f"{name} is not defined here")
            )
    return _both(ctx, node, name, branches, meanings)


def _result_operand(ctx: Context, b: Branch) -> Operand:
    result = b.scope.find(RESULT)
    return result.operand if isinstance(result, Simple) else blank(ctx)


def blank(ctx: Context) -> Value:
    """A value that stands for the function's result where there is none yet. Its type is known at the end."""
    if ctx.blank is None:
        node = Node(ctx.op("prim::Uninitialized"), ("Any",), (ANY,))
        ctx.top.nodes.insert(0, node)
        ctx.blank = node
        ctx.pending.append(node.output)
    return ctx.blank.output


def _only(
    ctx: Context, node: ast.AST, name: str, branches: list[Branch], side: int
) -> SugaredValue | tuple[Type, Operand, Operand]:
    meaning = branches[side].scope.find(name)
    if meaning is None:
        return Undefined(f"{name} is not defined here")
    if not isinstance(meaning, (Simple, TupleValue)):
        return meaning
    value = _within(ctx, branches[side], node, meaning)
    if not isinstance(value.operand, (Value, tuple)):
        return value
    other = branches[1 - side]
    stands = other.builder.emit_raw(ctx.op("prim::Uninitialized"), (str(value.type),), (value.type,)).output
    return (value.type, value.operand, stands) if side == 0 else (value.type, stands, value.operand)


def _within(ctx: Context, b: Branch, node: ast.AST, value: SugaredValue) -> Simple:
    """A value of the graph, made in the branch if it has to be made."""
    builder, scope = ctx.builder, ctx.scope
    ctx.builder, ctx.scope = b.builder, b.scope
    try:
        return value.as_value(ctx, node)
    finally:
        ctx.builder, ctx.scope = builder, scope


def _both(
    ctx: Context, node: ast.AST, name: str, branches: list[Branch], meanings: list[SugaredValue | None]
) -> SugaredValue | tuple[Type, Operand, Operand]:
    first, second = meanings
    if first is second and first is not None:
        return first
    for side, value in enumerate(meanings):
        if value is None or isinstance(value, Undefined):
            return value or Undefined(
                f"{name} is not defined in the {('first', 'second')[side]} branch of this `if`, and is used behind it; "
                "give it a value there, or before the `if`"
            )
    if not all(isinstance(v, (Simple, TupleValue)) for v in meanings):
        return Undefined(f"{name} stands for different objects in the two branches, and is used behind them; use it "
                         "within the branches")
    values = [_within(ctx, b, node, v) for b, v in zip(branches, meanings, strict=True) if v is not None]
    kinds = [v.type for v in values]
    declared = ctx.widest(name)
    kind = joined(*kinds)
    if kind is None and declared is not None and all(k.is_subtype_of(declared) for k in kinds):
        kind = declared
    if kind is None:
        return Undefined(
            f"Type mismatch: {name} is set to type {written(kinds[0])} in the first branch and type "
            f"{written(kinds[1])} in the second one; it is used behind them. "
            "Give the two values different names, or convert one of them"
        )
    one, two = (v.operand for v in values)
    if not isinstance(one, (Value, tuple)) and memo_key(one) == memo_key(two):
        return constant(one, kind)
    if one is two:
        return Simple(one, kind)
    return (kind, one, two)
