"""Methods of the classes that an object's class is derived from: `super().name(...)`, `Base.name(self, ...)`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence

from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Builtin, PythonFunction
from weft.jit.script.frontend.values import NOTHING, Simple, SugaredValue
from weft.types.tensor_type import Type


class Super(SugaredValue):
    """An object as one of the classes behind one of its own."""

    kind = "super()"

    def __init__(self, value: Simple, classes: Sequence[type]) -> None:
        self.value, self.classes = value, classes

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        base = next((c for c in self.classes if name in vars(c)), None)
        raw = None if base is None else vars(base)[name]
        if base is object and name == "__init__":
            return Builtin("__init__", lambda ctx, node, args, kwargs: NOTHING, (0, 0), ())
        if isinstance(raw, staticmethod):
            return PythonFunction(raw.__func__, name)
        if base is None or not inspect.isfunction(raw):
            ctx.fail(node, f"no class behind this one has a method {name!r}")
        return ctx.program.method_of_base(ctx, node, self.value, base, name)  # type: ignore[no-any-return]


def super_of(ctx: Context, node: ast.Call, expected: Type | None) -> SugaredValue:
    """`super()`, `super(Class, self)` in a method."""
    boxed = ctx.program.python_object("__class__")  # Python has it for functions that name super
    me = ctx.top.params[0] if ctx.top.params else None
    value = None if me is None else Simple(me, me.type)
    cls = None if value is None else ctx.program.class_of_value(ctx, node, value)
    if boxed is None or value is None or cls is None or boxed[0] not in cls.__mro__:
        ctx.fail(node, "super() is for methods of classes; call the function that is meant by its name")
    return Super(value, cls.__mro__[cls.__mro__.index(boxed[0]) + 1 :])


class UnboundMethod(SugaredValue):
    """`Class.method`, whose first argument is the object."""

    kind = "method"

    def __init__(self, cls: type, name: str) -> None:
        self.cls, self.name = cls, name

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        if not args:
            self.refuse(ctx, node, f"{self.name} needs its object as the first argument")
        value = args[0].as_value(ctx, node)
        cls = ctx.program.class_of_value(ctx, node, value)
        is_own = cls is None or getattr(cls, self.name, None) is getattr(self.cls, self.name)
        owner = value if is_own else Super(value, self.cls.__mro__)
        return owner.attribute(ctx, node, self.name).call(ctx, node, args[1:], kwargs, binders)


def key_of(cls: type, base: type, name: str) -> str:
    """The name under which an object of a class has the method of one of the classes behind it."""
    alike = [c for c in cls.__mro__ if c.__name__ == base.__name__]
    number = alike.index(base)
    return f"{name}__{base.__name__}" + (f"_{number}" if number else "")
