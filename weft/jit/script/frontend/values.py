"""What a name or expression stands for while a function is compiled: a value of the graph, or something that only the
compiler knows (SugaredValue).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from weft.ir.graph import Operand, Value
from weft.jit.script.annotations import written
from weft.types.tensor_type import NONE, TupleType, Type, named_tuple_of, tuple_of

if TYPE_CHECKING:
    from weft.jit.script.frontend.context import Context


class SugaredValue:
    """Anything that syntax can stand for. Each use that a kind does not offer is refused by name."""

    kind = "object"

    def as_value(self, ctx: Context, node: ast.AST, expected: Type | None = None) -> Simple:
        """The value of the graph."""
        self.refuse(ctx, node, "cannot be used as a value")

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        """`self.name`."""
        self.refuse(ctx, node, f"has no attribute {name!r}")

    def set_attribute(self, ctx: Context, node: ast.AST, name: str, value: SugaredValue) -> None:
        """`self.name = value`."""
        self.refuse(ctx, node, f"has no attribute {name!r} that could be written")

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        """`self(*args, **kwargs)`, whose result is bound to `binders` names."""
        self.refuse(ctx, node, "is not callable")

    def elements(self, ctx: Context, node: ast.AST, count: int | None = None) -> Sequence[SugaredValue]:
        """What it is unpacked into; `count` is how many names wait for it."""
        self.refuse(ctx, node, "cannot be used as a tuple")

    def item(self, ctx: Context, node: ast.AST, index: SugaredValue) -> SugaredValue:
        """`self[index]`, for an index that is no slice."""
        self.refuse(ctx, node, "cannot be indexed")

    def refuse(self, ctx: Context, node: ast.AST, problem: str) -> NoReturn:
        """Raises CompileError: this kind of object cannot do that."""
        ctx.fail(node, f"{self.kind} {problem}")


class Simple(SugaredValue):
    """A value of the graph: an operand and its type. What can be done with it hangs on its type; the context has the
    tables.
    """

    def __init__(self, operand: Operand, type: Type) -> None:
        self.operand, self.type = operand, type

    @property
    def kind(self) -> str:  # type: ignore[override]
        return f"value of type '{written(self.type)}'"

    @property
    def is_constant(self) -> bool:
        """Whether it is an immediate: a number, text or None that is known while compiling."""
        return not isinstance(self.operand, (Value, tuple))

    def as_value(self, ctx: Context, node: ast.AST, expected: Type | None = None) -> Simple:
        return self

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        return ctx.tables.attribute(ctx, node, self, name)

    def set_attribute(self, ctx: Context, node: ast.AST, name: str, value: SugaredValue) -> None:
        return ctx.tables.set_attribute(ctx, node, self, name, value)

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        return ctx.tables.call(ctx, node, self, args, kwargs)

    def elements(self, ctx: Context, node: ast.AST, count: int | None = None) -> Sequence[SugaredValue]:
        return ctx.tables.elements(ctx, node, self, count)

    def item(self, ctx: Context, node: ast.AST, index: SugaredValue) -> SugaredValue:
        return ctx.tables.item(ctx, node, self, index)


NOTHING = Simple(None, NONE)


class TupleValue(SugaredValue):
    """A tuple whose elements the compiler knows one by one, and that may hold what is no value of the graph (modules,
    say).
    """

    kind = "tuple"

    def __init__(self, items: Sequence[SugaredValue], name: str = "", fields: Sequence[str] = ()) -> None:
        self.items, self.name, self.fields = tuple(items), name, tuple(fields)

    def as_value(self, ctx: Context, node: ast.AST, expected: Type | None = None) -> Simple:
        wanted = (
            expected.elements
            if isinstance(expected, TupleType) and len(expected.elements) == len(self.items)
            else (None,) * len(self.items)
        )
        parts = [
            ctx.stored(item.as_value(ctx, node, w), w, node, "an element")
            for item, w in zip(self.items, wanted, strict=True)
        ]
        types = [p.type for p in parts]
        kind = (
            named_tuple_of(self.name, dict(zip(self.fields, types, strict=True))) if self.fields else tuple_of(*types)
        )
        constructed = ctx.emit(
            ctx.op("prim::TupleConstruct"), (tuple(p.operand for p in parts), str(kind) if self.fields else ""), node
        )
        return Simple(constructed.operand, kind)

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        if name in self.fields:
            return self.items[self.fields.index(name)]
        return self.as_value(ctx, node).attribute(ctx, node, name)

    def elements(self, ctx: Context, node: ast.AST, count: int | None = None) -> Sequence[SugaredValue]:
        return self.items

    def sliced(self, items: Sequence[SugaredValue]) -> TupleValue:
        """What a slice of it is, of these elements."""
        return TupleValue(items)

    def item(self, ctx: Context, node: ast.AST, index: SugaredValue) -> SugaredValue:
        at = index.operand if isinstance(index, Simple) and index.is_constant else None
        if type(at) is not int:
            return self.as_value(ctx, node).item(ctx, node, index)
        if not -len(self.items) <= at < len(self.items):
            ctx.fail(node, f"tuple index {at} is out of range: the tuple has {len(self.items)} elements")
        return self.items[at]


class ListValue(TupleValue):
    """A list that is written out, before anything holds it: an argument of an operator takes its elements as they
    stand.
    """

    kind = "list"

    def as_value(self, ctx: Context, node: ast.AST, expected: Type | None = None) -> Simple:
        return ctx.tables.new_list(ctx, node, self.items, expected)

    def sliced(self, items: Sequence[SugaredValue]) -> TupleValue:
        return ListValue(items)

    def item(self, ctx: Context, node: ast.AST, index: SugaredValue) -> SugaredValue:
        return self.as_value(ctx, node).item(ctx, node, index)


class Undefined(SugaredValue):
    """A name that has no value here, with the reason; only its use is an error."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def refuse(self, ctx: Context, node: ast.AST, problem: str) -> NoReturn:
        ctx.fail(node, self.reason)


def constant(value: Any, kind: Type) -> Simple:
    """An immediate."""
    return Simple(value, kind)
