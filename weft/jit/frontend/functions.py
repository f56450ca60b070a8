"""What can be called: weft's functions and operators, Python's functions (compiled, or called as they are), classes of
exceptions and named tuples.
"""

from __future__ import annotations

import ast
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from weft.ir.graph import Operand
from weft.jit.annotations import UnknownType, type_of_annotation
from weft.jit.frontend.context import Context
from weft.jit.frontend.matching import NoMatch, call_any, match
from weft.jit.frontend.values import ListValue, Simple, SugaredValue, TupleValue, constant
from weft.jit.overloads import first_that_takes, overloads_of
from weft.jit.program import MISSING, Program
from weft.ops.op import PACKETS, Op
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import NONE, STR, TENSOR, DictType, OptionalType, TupleType, Type

Args = Sequence[SugaredValue]
Kwargs = dict[str, SugaredValue]


class Builtin(SugaredValue):
    """A function of Python's that the compiler knows: it gets the arguments as they are compiled."""

    kind = "builtin function"

    def __init__(self, name: str, compile: Callable[[Context, ast.AST, Args, Kwargs], SugaredValue]) -> None:
        self.name, self.compile = name, compile

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        return self.compile(ctx, node, args, kwargs)


class TypedBuiltin(SugaredValue):
    """A function whose arguments are types or pieces of syntax."""

    kind = "builtin function"

    def __init__(self, compile: Callable[[Context, ast.Call, Type | None], SugaredValue]) -> None:
        self.compile = compile


class Entry(SugaredValue):
    """An operator of the language as a function: `len`, `math.sqrt`, `items.append`."""

    kind = "builtin function"

    def __init__(self, op: Op, bound: SugaredValue | None = None) -> None:
        self.op, self.bound = op, bound

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        given = ([] if self.bound is None else [self.bound]) + list(args)
        operands = bind_entry(ctx, node, self.op, given, kwargs)
        made = ctx.emit(self.op, tuple(operands), node)
        return made


def bind_entry(ctx: Context, node: ast.AST, op: Op, args: Args, kwargs: Kwargs) -> list[Operand]:
    """The operands of an entry of the language. Raises CompileError."""
    arguments = op.schema.arguments
    if len(args) > len(arguments):
        ctx.fail(node, f"{op.base}() takes {len(arguments)} arguments, {len(args)} were given")
    given: list[SugaredValue | None] = [*args, *[None] * (len(arguments) - len(args))]
    for name, value in kwargs.items():
        at = next((i for i, a in enumerate(arguments) if a.name == name), None)
        if at is None or given[at] is not None:
            ctx.fail(
                node, f"{op.base}() got {'no' if at is None else 'two values for the'} argument {name!r}: {op.schema}"
            )
        given[at] = value
    operands: list[Operand] = []
    for argument, one in zip(arguments, given, strict=True):
        if one is None and not argument.has_default:
            ctx.fail(node, f"{op.base}() is missing value for argument {argument.name!r}: {op.schema}")
        operands.append(argument.default if one is None else one.as_value(ctx, node).operand)
    return operands


class Operators(SugaredValue):
    """A function or method of weft's that is an operator, or is made of operators: `weft.relu`, `x.sum`."""

    kind = "function of weft's"

    def __init__(
        self,
        path: str,
        candidates: Sequence[Op],
        python: Any = None,
        bound: SugaredValue | None = None,
        in_place: bool = False,
    ) -> None:
        self.path, self.candidates, self.python, self.bound, self.in_place = path, candidates, python, bound, in_place

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        given = ([] if self.bound is None else [self.bound]) + list(args)
        if self.candidates and (self.python is None or self._fits(ctx, node, given, kwargs)):
            return call_any(ctx, node, self.path.rpartition(".")[2], self.candidates, given, kwargs, self.in_place)
        return call_builtin(ctx, node, self.path, self.python, given, kwargs)

    def _fits(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> bool:
        """Whether an operator takes the arguments. What none takes, but the function does (`requires_grad=`), is a call
        of the function.
        """
        extra = {"requires_grad", "out", "layout", "pin_memory", "memory_format", "inplace"} & set(kwargs)
        if not extra and not _is_written(self.python):
            return True
        for op in self.candidates:
            try:
                match(ctx, node, op, args, kwargs)
                return True
            except NoMatch:
                continue
        return False


def _is_written(function: Any) -> bool:
    """Whether a method of Tensor is written by hand over its operators, for arguments that these do not take
    (`x.to("cpu")`).
    """
    code = getattr(function, "__code__", None)
    return (
        code is not None
        and code.co_name == getattr(function, "__name__", "")
        and getattr(Tensor, code.co_name, None) is function
    )


def call_builtin(ctx: Context, node: ast.AST, path: str, function: Any, args: Args, kwargs: Kwargs) -> SugaredValue:
    """A call of a function of weft's that is no operator, found again by its path when the program runs."""
    kind = _returned(function)
    values = [a.as_value(ctx, node) for a in (*args, *kwargs.values())]
    op = ctx.op("prim::CallBuiltin")
    return spread(ctx, node, ctx.emit(op, (path, tuple(v.operand for v in values), tuple(kwargs), str(kind)), node))


def _returned(function: Any) -> Type:
    """The type that a function's annotation promises; a tensor where it says nothing that is known."""
    try:
        return (
            type_of_annotation(typing.get_type_hints(function).get("return", typing.Any))
            if function is not None
            else TENSOR
        )
    except (UnknownType, NameError, TypeError):
        return TENSOR


def spread(ctx: Context, node: ast.AST, value: Simple) -> SugaredValue:
    """The result of a call; None is known as such."""
    return constant(None, NONE) if value.type is NONE else value


class Scripted(SugaredValue):
    """A function that is compiled too."""

    kind = "scripted function"

    def __init__(self, program: Program) -> None:
        self.program = program

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        operands = bound_operands(ctx, node, self.program, args, kwargs)
        name = ctx.program.link(self.program)
        made = ctx.emit(ctx.op("prim::CallFunction"), (name, tuple(operands), str(self.program.returns)), node)
        return spread(ctx, node, made)


def bound_operands(
    ctx: Context, node: ast.AST, program: Program, args: Args, kwargs: Kwargs, skipped: int = 0
) -> list[Operand]:
    """Operands for a program's parameters (without the first `skipped`), defaults filled in. Raises CompileError."""
    parameters = program.parameters[skipped:]
    positional = [p for p in parameters if not p.keyword_only]
    shown = program.schema()
    if len(args) > len(positional):
        ctx.fail(
            node, f"expected at most {len(positional)} arguments but found {len(args)} positional arguments: {shown}"
        )
    given: dict[str, SugaredValue] = {p.name: a for p, a in zip(positional, args, strict=False)}
    for name, value in kwargs.items():
        if name in given or all(p.name != name for p in parameters):
            ctx.fail(node, f"{'got two values for' if name in given else 'Unknown keyword'} argument '{name}': {shown}")
        given[name] = value
    operands: list[Operand] = []
    for p in parameters:
        one = given.get(p.name)
        if one is None:
            if p.default is MISSING:
                ctx.fail(node, f"Argument {p.name} not provided: {shown}")
            one = default_value(ctx, p.default, p.name)
            assert one is not None
        operands.append(
            ctx.coerced(one.as_value(ctx, node, p.type), p.type, node, f"argument '{p.name}' of {shown}").operand
        )
    return operands


def default_value(ctx: Context, default: Any, name: str) -> SugaredValue | None:
    """The default of a parameter or field: of a list or dict a new one each time, so that no two calls share it."""
    if type(default) is list:
        parts = [default_value(ctx, v, name) for v in default]
        return None if None in parts else ListValue([p for p in parts if p is not None])
    return ctx.program.wrap(ctx, default, name)  # type: ignore[no-any-return]


class PythonFunction(SugaredValue):
    """A function of Python's. A call compiles it, save one marked @weft.jit.ignore, which is called as it is."""

    kind = "Python function"

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        how = getattr(self.function, "__weft_script__", None)
        if how == "unused":
            ctx.prim(
                "RaiseException",
                node,
                constant(f"{self.name} is marked @weft.jit.unused: it must not be called from a scripted program", STR),
                constant("RuntimeError", STR),
            )
            kind = ctx.program.python_signature(ctx, node, self.function).returns
            return ctx.emit(ctx.op("prim::Uninitialized"), (str(kind),), node)
        if how == "ignore":
            return self._as_it_is(ctx, node, args, kwargs)
        declared = overloads_of(self.function)
        if declared:
            return self._overloaded(ctx, node, declared, args, kwargs)
        return Scripted(ctx.program.compiled(ctx, node, self.function)).call(ctx, node, args, kwargs, binders)

    def _overloaded(
        self, ctx: Context, node: ast.AST, declared: Sequence[Any], args: Args, kwargs: Kwargs
    ) -> SugaredValue:
        """The first of the declared signatures that the arguments fit."""
        programs = [ctx.program.compiled_as(ctx, node, self.function, signature) for signature in declared]
        return first_that_takes(
            ctx, node, self.name, programs, args, kwargs, lambda p: Scripted(p).call(ctx, node, args, kwargs, 1)
        )

    def _as_it_is(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
        """A node that calls Python when the program runs."""
        signature = ctx.program.python_signature(ctx, node, self.function)
        operands = bound_operands(ctx, node, signature, args, kwargs)
        name = ctx.program.link_python(self.function, self.name)
        names = tuple(p.name for p in signature.parameters if p.keyword_only)
        made = ctx.emit(ctx.op("prim::PythonOp"), (name, tuple(operands), names, str(signature.returns)), node)
        return spread(ctx, node, made)


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
        given: dict[str, SugaredValue] = {**dict(zip(fields, args, strict=False)), **kwargs}
        items: list[SugaredValue] = []
        for field, kind in zip(fields, self.type.elements, strict=True):
            one = given.pop(field, None) or (
                default_value(ctx, defaults[field], field) if field in defaults else None
            )
            if one is None:
                ctx.fail(node, f"{self.type.name}() is missing a value for its field {field!r}")
            items.append(ctx.coerced(one.as_value(ctx, node, kind), kind, node, f"field {field!r}"))
        if given or len(args) > len(fields):
            ctx.fail(node, f"{self.type.name}() has the fields {', '.join(fields)}")
        return TupleValue(items, self.type.name, fields).as_value(ctx, node)


class PythonModule(SugaredValue):
    """A module of Python's: a name in it is whatever Python has there."""

    kind = "python module"

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        try:
            found = getattr(self.module, name)
        except AttributeError as problem:
            ctx.fail(node, str(problem))
        wrapped = ctx.program.wrap(ctx, found, f"{self.module.__name__}.{name}")
        if wrapped is None:
            ctx.fail(
                node, f"{self.module.__name__}.{name} is a {type(found).__name__}, which a scripted program cannot use"
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
        return Operators(f"aten.{name}", packet.overloads)


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
        made = ctx.emit(ctx.op("prim::DictConstruct"), (tuple(self.parts), tuple(values), str(wanted)), node)
        return Simple(made.operand, wanted)

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


def overloads(name: str) -> list[Op]:
    """The entries of an operator, none if there is no such one."""
    return PACKETS.get(name, [])
