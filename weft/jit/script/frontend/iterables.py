"""What a loop can go over, and the loop itself where nothing is carried but effects (comprehensions)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.ir.graph import Value
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.values import Simple, SugaredValue, TupleValue, constant
from weft.types.tensor_type import INT, STR, ClassType, DictType, ListType, TensorType, TupleType

ENDLESS = (1 << 63) - 1


@dataclass
class Iterable(SugaredValue):
    """Something with a length and an element for each index; `items` where the compiler knows them one by one."""

    length: Simple | None
    element: Callable[[Context, ast.AST, Simple], SugaredValue]
    items: Sequence[SugaredValue] | None = None
    kind = "iterable"

    def turned(self, ctx: Context, node: ast.AST) -> Iterable:
        """The same elements, the last one first."""
        if self.items is not None:
            return Iterable(self.length, _never, self.items[::-1])
        assert self.length is not None
        last = ctx.prim("sub", node, self.length, constant(1, INT))
        return Iterable(self.length, lambda c, n, i: self.element(c, n, c.prim("sub", n, last, i)))

    def as_value(self, ctx: Context, node: ast.AST, expected: object = None) -> Simple:
        if self.items is not None:
            return ctx.tables.new_list(ctx, node, self.items, None)
        ctx.fail(node, "ranges, enumerate and zip are for loops; make a list of it: `[x for x in ...]`")

    def elements(self, ctx: Context, node: ast.AST, count: int | None = None) -> Sequence[SugaredValue]:
        if self.items is None:
            self.refuse(
                ctx, node, "cannot be unpacked: how many elements there are is known only when the program runs"
            )
        return self.items


def iterable(ctx: Context, node: ast.expr) -> Iterable:
    """What `for x in node` goes over."""
    return iterated(ctx, node, ctx.expression(node))


def iterated(ctx: Context, node: ast.AST, value: SugaredValue) -> Iterable:
    """A value as something to go over. Raises CompileError for what has no elements."""
    if isinstance(value, Iterable):
        return value
    if not isinstance(value, Simple):
        items = value.elements(ctx, node)
        return Iterable(constant(len(items), INT), _never, items)
    kind = value.type
    if isinstance(kind, ClassType):
        items = value.elements(ctx, node)
        return Iterable(constant(len(items), INT), _never, items)
    if isinstance(kind, TupleType):
        return Iterable(constant(len(kind.elements), INT), _never, value.elements(ctx, node))
    if isinstance(kind, DictType):
        value = ctx.prim("keys", node, value)
    elif isinstance(kind, TensorType):
        return Iterable(
            ctx.prim("len", node, value),
            lambda c, n, i: c.emit(c.op("aten::select.int"), (value.operand, 0, i.operand), n, (kind,)),
        )
    elif not isinstance(kind, ListType) and kind is not STR:
        instead = "; write `range(...)`" if kind is INT else ""
        ctx.fail(node, f"a value of type {kind} has no elements to go over{instead}")
    return Iterable(ctx.prim("len", node, value), lambda c, n, i: c.prim("getitem", n, value, i))


def _never(ctx: Context, node: ast.AST, index: Simple) -> SugaredValue:
    ctx.fail(node, "the elements of a tuple are known one by one")


def range_of(ctx: Context, node: ast.AST, args: Sequence[Simple]) -> Iterable:
    """`range(n)`, `range(start, stop, step)`."""
    if not 1 <= len(args) <= 3:
        ctx.fail(node, f"range takes 1 to 3 integers, not {len(args)} arguments")
    numbers = [ctx.coerced(a, INT, node, "an argument of range") for a in args]
    if len(numbers) == 1:
        return Iterable(
            numbers[0] if isinstance(numbers[0].operand, Value) else constant(max(numbers[0].operand, 0), INT),
            lambda c, n, i: i,
        )
    start, stop, step = (*numbers, constant(1, INT))[:3]
    length = ctx.prim("range_length", node, start, stop, step)
    return Iterable(length, lambda c, n, i: c.prim("add", n, start, c.prim("mul", n, i, step)))


def enumerated(ctx: Context, node: ast.AST, inner: Iterable, start: Simple) -> Iterable:
    """`enumerate(items, start)`."""
    if inner.items is not None:
        return Iterable(
            inner.length,
            _never,
            [TupleValue((ctx.prim("add", node, start, constant(i, INT)), item)) for i, item in enumerate(inner.items)],
        )
    return Iterable(inner.length, lambda c, n, i: TupleValue((c.prim("add", n, start, i), inner.element(c, n, i))))


def zipped(ctx: Context, node: ast.AST, parts: Sequence[Iterable]) -> Iterable:
    """`zip(a, b)`: as long as the shortest, which the run finds out where it is not known of each."""
    if any(p.items is None for p in parts):
        parts = [_listed(ctx, node, p) for p in parts]
    unrolled = [p for p in parts if p.items is not None]
    if unrolled:
        count = min(len(p.items or ()) for p in unrolled)
        rows = [
            TupleValue([p.items[i] if p.items is not None else p.element(ctx, node, constant(i, INT)) for p in parts])
            for i in range(count)
        ]
        for part in parts:
            if part.items is None and part.length is not None:
                _expect(ctx, node, part.length, count)
        return Iterable(constant(count, INT), _never, rows)
    length = parts[0].length
    for part in parts[1:]:
        assert length is not None and part.length is not None
        length = ctx.prim("min", node, length, part.length)
    return Iterable(length, lambda c, n, i: TupleValue([p.element(c, n, i) for p in parts]))


def _listed(ctx: Context, node: ast.AST, part: Iterable) -> Iterable:
    """Items that are known one by one as a list of the run, where they are values of one type."""
    items = part.items
    if not items or not all(isinstance(i, Simple) for i in items):
        return part
    if len({i.type for i in items if isinstance(i, Simple)}) > 1:
        return part
    return iterated(ctx, node, ctx.tables.new_list(ctx, node, items, None))


def _expect(ctx: Context, node: ast.AST, length: Simple, count: int) -> None:
    """Raise where the run finds fewer elements than there are items that the program is unrolled for."""
    text = f"zip: {count} values are unrolled here, and what goes with them has fewer elements; give it as many"
    _raise_if(ctx, node, ctx.prim("lt", node, length, constant(count, INT)), text)


def refuse_lengths(ctx: Context, node: ast.AST, parts: Sequence[Iterable]) -> None:
    """Raise, when the program runs, where they have not one length."""
    lengths = [p.length if p.items is None else constant(len(p.items), INT) for p in parts]
    for at, length in enumerate(lengths[1:], 2):
        assert lengths[0] is not None and length is not None
        text = f"zip() argument {at} is shorter or longer than argument 1"
        _raise_if(ctx, node, ctx.prim("ne", node, length, lengths[0]), text, "ValueError")


def _raise_if(ctx: Context, node: ast.AST, condition: Simple, text: str, error: str = "Exception") -> None:
    with ctx.block() as inner:
        ctx.prim("RaiseException", node, constant(text, STR), constant(error, STR))
        raised = inner.block(())
    with ctx.block() as inner:
        passed = inner.block(())
    ctx.append(ctx.op("prim::If"), (condition.operand,), (), node, (raised, passed))


def loop_over(ctx: Context, node: ast.AST, over: Iterable, body: Callable[[SugaredValue], None]) -> None:
    """A loop that carries nothing: its body has effects only."""
    if over.items is not None:
        for item in over.items:
            body(item)
        return
    assert over.length is not None
    with ctx.block() as inner:
        index = inner.param(INT)
        body(over.element(ctx, node, Simple(index, INT)))
        ctx.scope.assigned.clear()
        block = inner.block((True,))
    ctx.append(ctx.op("prim::Loop"), (over.length.operand, True, (), (), False), (), node, (block,))
