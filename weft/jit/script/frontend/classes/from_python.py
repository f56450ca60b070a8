"""Classes of Python's from outside: what stands in one, and enumerations, whose members are constants of a program."""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Sequence
from typing import Any

from weft.jit.script.annotations import enumeration_type, is_plain_class
from weft.jit.script.frontend.classes.inherited import UnboundMethod
from weft.jit.script.frontend.classes.script_classes import ClassMethod, description_of, make_object
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import PythonFunction
from weft.jit.script.frontend.matching import call_operator
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, constant
from weft.nn.modules.module import Module
from weft.tensor import legacy
from weft.tensor.creation import tensor
from weft.types.tensor_type import DTYPE, INT, STR, ListType, Type


class PythonClass(SugaredValue):
    """A class: its constants and static methods; of the user's own classes, objects can be made."""

    kind = "class"

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        raw = inspect.getattr_static(self.cls, name, None)
        if isinstance(raw, staticmethod):
            return PythonFunction(raw.__func__, f"{self.cls.__name__}.{name}")
        if isinstance(raw, classmethod) and is_plain_class(self.cls):
            return ClassMethod(description_of(self.cls), name)
        if inspect.isfunction(raw) and (is_plain_class(self.cls) or issubclass(self.cls, Module)):
            return UnboundMethod(self.cls, name)
        wrapped = None if raw is None or callable(raw) else ctx.program.wrap(ctx, raw, f"{self.cls.__name__}.{name}")
        if wrapped is None:
            self.refuse(ctx, node, f"{self.cls.__name__} has no constant or static method {name!r}")
        return wrapped  # type: ignore[no-any-return]

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        if self.cls in legacy.TYPES.values():
            return _older_constructor(ctx, node, self.cls, args, kwargs)
        if not is_plain_class(self.cls):
            self.refuse(ctx, node, f"{self.cls.__name__} cannot be called: programs make objects of plain classes only")
        return make_object(ctx, node, description_of(self.cls), args, kwargs)


def _older_constructor(
    ctx: Context, node: ast.AST, cls: Any, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]
) -> SugaredValue:
    """`LongTensor(2, 3)` and `LongTensor([1, 2])`."""
    for name in kwargs:
        ctx.fail(node, f"{cls.__name__}() takes nothing by name in a program, not {name}")
    dtype = {"dtype": constant(cls.dtype, DTYPE)}
    values = [a.as_value(ctx, node) for a in args]
    if len(values) == 1 and isinstance(values[0].type, ListType):
        return ctx.program.wrap(ctx, tensor, "tensor").call(ctx, node, values, dtype, 1)  # type: ignore[no-any-return]
    if any(v.type is not INT for v in values):
        ctx.fail(node, f"{cls.__name__}() takes sizes, or one list of numbers")
    sizes = ListValue(values or [constant(0, INT)])
    return call_operator(ctx, node, "aten::empty", [sizes], dtype)


class Enumeration(SugaredValue):
    """A class of enumerated constants."""

    kind = "enumeration"

    def __init__(self, cls: type[enum.Enum]) -> None:
        self.cls = cls

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        if name not in self.cls.__members__:
            self.refuse(ctx, node, f"{self.cls.__name__} has no member {name!r}")
        return Member(self.cls[name])

    def elements(self, ctx: Context, node: ast.AST, count: int | None = None) -> Sequence[SugaredValue]:
        return [Member(m) for m in self.cls]


class Member(SugaredValue):
    """A member of an enumeration: an object that the program keeps; its name and value are known while compiling."""

    kind = "member of an enumeration"

    def __init__(self, member: enum.Enum) -> None:
        self.member = member

    def as_value(self, ctx: Context, node: ast.AST, expected: Type | None = None) -> Simple:
        kind = enumeration_type(type(self.member))
        name = ctx.program.keep(self.member, f"{type(self.member).__name__}.{self.member.name}")
        read = ctx.builder.emit_raw(ctx.op("prim::GetAttr"), (None, name, str(kind)), (kind,))
        return Simple(read.output, kind)

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        if name == "name":
            return constant(self.member.name, STR)
        wrapped = ctx.program.wrap(ctx, self.member.value, "value") if name == "value" else None
        if wrapped is None:
            self.refuse(ctx, node, f"has no attribute {name!r} that a program can use")
        return wrapped  # type: ignore[no-any-return]


def class_of_python(cls: type) -> SugaredValue:
    """A class from outside."""
    return Enumeration(cls) if issubclass(cls, enum.Enum) else PythonClass(cls)
