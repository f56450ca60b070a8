"""What names from outside of a program stand for besides functions: modules, namespaces of operators, classes of
exceptions and named tuples, dicts, modes of gradients.
"""

from __future__ import annotations

import ast
import types
from dataclasses import replace
from typing import Any

from weft.jit.program import Program
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Args, Kwargs, Operators, PythonFunction, default_value
from weft.jit.script.frontend.values import Simple, SugaredValue, TupleValue, constant
from weft.ops.packet import InplacePacket
from weft.support.knobs import nearest
from weft.types.tensor_type import ANY, STR, TENSOR, DictType, OptionalType, TupleType, Type


class ExceptionClass(SugaredValue):
    """One of Python's exceptions."""

    kind = "exception class"

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        if not args:
            return RaisedException(self.name, constant("", STR))
        shown = args[0] if len(args) == 1 else TupleValue(args)
        return RaisedException(self.name, ctx.prim("str", node, shown.as_value(ctx, node)))


class RaisedException(SugaredValue):
    """An exception that is about to be raised."""

    kind = "exception"

    def __init__(self, name: str, message: Simple) -> None:
        self.name, self.message = name, message


class NamedTupleClass(SugaredValue):
    """A class of named tuples."""

    kind = "class of named tuples"

    def __init__(self, cls: Any, type: TupleType) -> None:
        self.cls, self.type = cls, type

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        fields, defaults = self.type.fields, getattr(self.cls, "_field_defaults", {})
        by_field: dict[str, SugaredValue] = {**dict(zip(fields, args, strict=False)), **kwargs}
        items: list[SugaredValue] = []
        for field, kind in zip(fields, self.type.elements, strict=True):
            one = by_field.pop(field, None) or (
                default_value(ctx, defaults[field], field) if field in defaults else None
            )
            if one is None:
                ctx.fail(node, f"{self.type.name}() is missing a value for its field {field!r}")
            items.append(ctx.coerced(one.as_value(ctx, node, kind), kind, node, f"field {field!r}"))
        if by_field or len(args) > len(fields):
            ctx.fail(node, f"{self.type.name}() has the fields {', '.join(fields)}")
        return TupleValue(items, self.type.name, fields).as_value(ctx, node)


class CalledModule(PythonFunction):
    """A Module from outside: a call is a call of Python's, as its `forward` is annotated."""

    kind = "Module from outside"

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        return self.as_it_is(ctx, node, args, kwargs)

    def _signature(self, ctx: Context, node: ast.AST) -> Program:
        forward: Any = self.function.forward  # type: ignore[attr-defined]
        program = getattr(forward, "__weft_program__", None)
        if program is not None:
            return Program(program.name, program.parameters[1:], program.returns)
        signature: Program = ctx.program.python_signature(ctx, node, forward)
        plain = tuple(replace(p, type=TENSOR) if p.type is ANY else p for p in signature.parameters)
        return Program(signature.name, plain, TENSOR if signature.returns is ANY else signature.returns)


class PythonModule(SugaredValue):
    """A module of Python's, or a namespace: a name in it is whatever Python has there."""

    kind = "python module"

    def __init__(self, module: types.ModuleType | types.SimpleNamespace) -> None:
        self.module, self.name = module, getattr(module, "__name__", "")

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        try:
            member = getattr(self.module, name)
        except AttributeError as problem:
            hint = "" if "there is no" in str(problem) else nearest(name, dir(self.module))
            ctx.fail(node, f"{problem}{hint}")
        wrapped = ctx.program.wrap(ctx, member, f"{self.name}.{name}")
        if wrapped is None:
            ctx.fail(
                node, f"{self.name}.{name} is a {type(member).__name__}, which a scripted program cannot use"
            )
        return wrapped  # type: ignore[no-any-return]


class OperatorNamespace(SugaredValue):
    """`weft.ops.packet.aten`: operators by their names."""

    kind = "namespace of operators"

    def __init__(self, space: Any) -> None:
        self.space = space

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        packet = getattr(self.space, name, None)
        if packet is None:
            self.refuse(ctx, node, f"has no operator {name!r}")
        is_written = isinstance(packet, InplacePacket)
        return Operators(f"aten.{name}", packet.overloads, in_place=is_written)


class ConstantDict(SugaredValue):
    """A dict from outside: what it has for a key is known while compiling."""

    kind = "dict from outside"

    def as_value(self, ctx: Context, node: ast.AST, expected: Type | None = None) -> Simple:
        wanted = expected.inner if isinstance(expected, OptionalType) else expected
        if not isinstance(wanted, DictType):
            self.refuse(ctx, node, "is no value of a program; index it by a key that is known while compiling")
        values = [
            ctx.coerced(v.as_value(ctx, node, wanted.value), wanted.value, node).operand for v in self.parts.values()
        ]
        constructed = ctx.emit(ctx.op("prim::DictConstruct"), (tuple(self.parts), tuple(values), str(wanted)), node)
        return Simple(constructed.operand, wanted)

    def __init__(self, parts: dict[Any, Any]) -> None:
        self.parts = parts

    def item(self, ctx: Context, node: ast.AST, index: SugaredValue) -> SugaredValue:
        at = index.operand if isinstance(index, Simple) and index.is_constant else None
        if at not in self.parts:
            self.refuse(ctx, node, f"has no element for {at!r}; its keys must be known while compiling")
        return self.parts[at]  # type: ignore[no-any-return]


class GradMode(SugaredValue):
    """`weft.no_grad`, `weft.enable_grad`; called, what a `with` statement takes."""

    kind = "context manager"

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        return self


class NamedBlock(SugaredValue):
    """`weft.profiler.record_function`; called with a text, a block that does what stands in it."""

    kind = "context manager"

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        for name in (*args, *kwargs.values()):
            name.as_value(ctx, node)
        return self
