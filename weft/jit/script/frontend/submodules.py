"""Submodules in programs: elements of containers, and what a Module has, by name."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from weft.jit.script.frontend.branches import choose
from weft.jit.script.frontend.conditions import Condition
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Builtin
from weft.jit.script.frontend.values import Simple, SugaredValue, TupleValue, constant
from weft.nn.modules.containers import Sequential
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type, class_of


class Element(SugaredValue):
    """A submodule in a container, read when it is used."""

    kind = "module"

    def __init__(self, module: Any, container: Simple, name: str) -> None:
        self.module, self.container, self.name = module, container, name

    def as_value(self, ctx: Context, node: ast.AST, expected: Type | None = None) -> Simple:
        return read_member(ctx, node, self.container, self.name, class_of(self.module._script_name))

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        return self.as_value(ctx, node).attribute(ctx, node, name)

    def set_attribute(self, ctx: Context, node: ast.AST, name: str, value: SugaredValue) -> None:
        self.as_value(ctx, node).set_attribute(ctx, node, name, value)

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        return self.as_value(ctx, node).call(ctx, node, args, kwargs, binders)

    def elements(self, ctx: Context, node: ast.AST, count: int | None = None) -> Sequence[SugaredValue]:
        return self.as_value(ctx, node).elements(ctx, node, count)

    def item(self, ctx: Context, node: ast.AST, index: SugaredValue) -> SugaredValue:
        return self.as_value(ctx, node).item(ctx, node, index)


def submodule_at(ctx: Context, node: ast.AST, container: Simple, at: Simple, kind: Type) -> Simple:
    """The element of a container of Modules that an index or key finds while the program runs, as of an interface.
    Raises CompileError where an element does not implement it.
    """
    elements = [e.as_value(ctx, node) for e in container.elements(ctx, node)]
    keyed = bool(elements) and elements[0].is_constant
    if at.type is not (tt.STR if keyed else tt.INT):
        ctx.fail(node, f"the index of this container is {'a key' if keyed else 'an integer'}, not of type {at.type}")

    def element(i: int) -> Simple:
        held = container.attribute(ctx, node, elements[i].operand).as_value(ctx, node) if keyed else elements[i]
        return ctx.coerced(held, kind, node, "the element")

    def from_here(i: int) -> Simple:
        if i == len(elements):
            return _missing(ctx, node, at, kind, "KeyError" if keyed else "IndexError")
        asked = ctx.prim("eq", node, at, elements[i] if keyed else constant(i, tt.INT))
        if not keyed:
            from_end = ctx.prim("eq", node, at, constant(i - len(elements), tt.INT))
            asked = ctx.prim("bitwise_or", node, asked, from_end)
        return choose(ctx, node, Condition(asked), lambda: element(i), lambda: from_here(i + 1)).as_value(ctx, node)

    return from_here(0)


def _missing(ctx: Context, node: ast.AST, at: Simple, kind: Type, error: str) -> Simple:
    text = ctx.prim("str", node, at)
    ctx.prim("RaiseException", node, text, constant(error, tt.STR))
    return ctx.emit(ctx.op("prim::Uninitialized"), (str(kind),), node)


class PartOfSequential(TupleValue):
    """Elements of a Sequential, which are called one after the other: `self.layers[1:](x)`."""

    kind = "part of a Sequential"

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        if len(args) != 1 or kwargs:
            self.refuse(ctx, node, f"takes one argument, {len(args) + len(kwargs)} were given")
        (value,) = args
        for module in self.items:
            value = module.call(ctx, node, [value], {}, binders)
        return value

    def sliced(self, items: Sequence[SugaredValue]) -> TupleValue:
        return PartOfSequential(items)


def part_of_container(
    ctx: Context, node: ast.AST, container: Simple, elements: Sequence[SugaredValue]
) -> TupleValue:
    """Some elements of a container of Modules."""
    cls = ctx.program.class_of_value(ctx, node, container)
    return PartOfSequential(elements) if cls is not None and issubclass(cls, Sequential) else TupleValue(elements)


class Submodules(SugaredValue):
    """`self._modules`: the submodules by their names."""

    kind = "dict of submodules"

    def __init__(self, owner: Any, value: Simple) -> None:
        self.owner, self.value = owner, value

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        if name not in _VIEWS:
            self.refuse(ctx, node, f"has no attribute {name!r} in a scripted program")
        return view_of_modules(self.owner, self.value, name)

    def elements(self, ctx: Context, node: ast.AST, count: int | None = None) -> Sequence[SugaredValue]:
        return [constant(k, tt.STR) for k in self.owner.__dict__["_modules"]]


_VIEWS = ("keys", "values", "items")


def view_of(ctx: Context, node: ast.AST, value: Simple, owner: Any, name: str) -> SugaredValue | None:
    """`keys`, `values`, `items` of a ModuleDict."""
    if name not in _VIEWS or not hasattr(owner._original_class(), "keys"):
        return None
    return view_of_modules(owner, value, name)


def view_of_modules(owner: Any, value: Simple, name: str) -> SugaredValue:
    """What `keys`, `values` or `items` give for the submodules of an object."""

    def compile(c: Context, n: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]) -> SugaredValue:
        inner = owner.__dict__["_modules"]
        keys = [constant(k, tt.STR) for k in inner]
        values = [Element(m, value, k) for k, m in inner.items()]
        if name == "items":
            return TupleValue([TupleValue(pair) for pair in zip(keys, values, strict=True)])
        return TupleValue(keys if name == "keys" else values)

    return Builtin(name, compile)


WALKS = (
    "children", "named_children", "modules", "named_modules", "parameters", "named_parameters", "buffers",
    "named_buffers",
)


def walked(ctx: Context, value: Simple, owner: Any, name: str) -> SugaredValue:
    """`self.children()` and the like: what a Module has is known while compiling."""
    members = getattr(owner, name)()
    if not name.startswith("named_"):
        paths = [path for path, _ in getattr(owner, f"named_{name}")()]
        return TupleValue([_at_path(ctx, value, path) for path in paths])
    return TupleValue([TupleValue([constant(path, tt.STR), _at_path(ctx, value, path)]) for path, _ in members])


def _at_path(ctx: Context, value: Simple, path: str) -> SugaredValue:
    member: SugaredValue = value
    for name in filter(None, path.split(".")):
        member = member.attribute(ctx, ast.Pass(lineno=1, col_offset=0), name)
    return member


def read_member(ctx: Context, node: ast.AST, value: Simple, name: str, kind: Type) -> Simple:
    attribute = ctx.emit(ctx.op("prim::GetAttr"), (value.operand, name, str(kind)), node)
    return Simple(attribute.operand, kind)
