"""What can be called: weft's functions and operators, Python's functions (compiled, or called as they are), classes of
exceptions and named tuples.
"""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any

from weft.ir.graph import Operand
from weft.jit.program import MISSING, Program
from weft.jit.script.annotations import UnknownType, type_of_annotation
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.matching import NoMatch, call_any, match
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, TupleValue, constant
from weft.jit.script.overloads import first_that_takes, overloads_of
from weft.ops.op import PACKETS, Op
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import BOOL, NONE, STR, TENSOR, ListType, TupleType, Type, tuple_of

Args = Sequence[SugaredValue]
Kwargs = dict[str, SugaredValue]


class Builtin(SugaredValue):
    """A function of Python's that the compiler knows: it gets the arguments as they are compiled."""

    kind = "builtin function"

    def __init__(
        self,
        name: str,
        compile: Callable[[Context, ast.AST, Args, Kwargs], SugaredValue],
        counts: tuple[int, int] = (0, 1 << 20),
        words: Sequence[str] | None = None,
    ) -> None:
        """counts: the least and most arguments by position; words: the names of those by name, None for any."""
        self.name, self.compile, self.counts, self.words = name, compile, counts, words

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        unknown = [] if self.words is None else [k for k in kwargs if k not in self.words]
        if unknown:
            offer = f"takes {'= and '.join(self.words)}= here" if self.words else "takes no arguments by name"
            ctx.fail(node, f"{self.name}() {offer}, not {', '.join(unknown)}")
        least, most = self.counts
        if not least <= len(args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}" if most < 9 else f"at least {least}"
            ctx.fail(node, f"{self.name}() takes {wanted} argument{'s' * (wanted != '1')}, {len(args)} were given")
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
        arguments = ([] if self.bound is None else [self.bound]) + list(args)
        operands = bind_entry(ctx, node, self.op, arguments, kwargs)
        return ctx.emit(self.op, tuple(operands), node)


def bind_entry(ctx: Context, node: ast.AST, op: Op, args: Args, kwargs: Kwargs) -> list[Operand]:
    """The operands of an entry of the language. Raises CompileError."""
    arguments = op.schema.arguments
    if len(args) > len(arguments):
        ctx.fail(node, f"{op.base}() takes {len(arguments)} arguments, {len(args)} were given")
    values: list[SugaredValue | None] = [*args, *[None] * (len(arguments) - len(args))]
    for name, value in kwargs.items():
        at = next((i for i, a in enumerate(arguments) if a.name == name), None)
        if at is None or values[at] is not None:
            ctx.fail(
                node, f"{op.base}() got {'no' if at is None else 'two values for the'} argument {name!r}: {op.schema}"
            )
        values[at] = value
    operands: list[Operand] = []
    for argument, one in zip(arguments, values, strict=True):
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
        arguments, kwargs = self._with_object(args, kwargs)
        flags = self._flags()
        if flags:
            return self._dispatched(ctx, node, flags, arguments, kwargs)
        if self.candidates and (self.python is None or self._fits(ctx, node, arguments, kwargs)):
            return call_any(ctx, node, self.path.rpartition(".")[2], self.candidates, arguments, kwargs, self.in_place)
        return call_builtin(ctx, node, self.path, self.python, arguments, kwargs)

    def _names(self) -> list[str]:
        """The names of the arguments."""
        if self.candidates:
            return [a.name for a in self.candidates[0].schema.arguments]
        return [] if self.python is None else list(inspect.signature(self.python).parameters)

    def _flags(self) -> tuple[str, ...]:
        """The arguments of which each that is set gives one more tensor."""
        if self.candidates:
            return self.candidates[0].more
        return tuple(name for name in self._names() if name == "return_indices")

    def _dispatched(
        self, ctx: Context, node: ast.AST, flags: Sequence[str], args: Args, kwargs: Kwargs
    ) -> SugaredValue:
        """A call of what gives more tensors where it is asked to: `F.max_pool2d(x, 2, return_indices=True)`."""
        names, least = self._names(), len(self.candidates[0].schema.returns) if self.candidates else 1
        count = least
        for flag in flags:
            at = names.index(flag)
            value = (args[at] if at < len(args) else kwargs.get(flag, constant(False, BOOL))).as_value(ctx, node)
            if not value.is_constant:
                ctx.fail(node, f"{self.path}: {flag} must be known while compiling")
            count += bool(value.operand)
        if self.candidates and count == least:
            return call_any(ctx, node, self.path.rpartition(".")[2], self.candidates, args, kwargs)
        kind = TENSOR if count == 1 else tuple_of(*(TENSOR,) * count)
        return call_builtin(ctx, node, self.path, self.python, args, kwargs, kind)

    def _with_object(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """The arguments with the object of a method, which is `self` wherever that stands: `x.where(condition, y)`."""
        if self.bound is None:
            return args, kwargs
        names = [a.name for a in self.candidates[0].schema.arguments] if self.candidates else []
        at = names.index("self") if "self" in names else 0
        if at > len(args):
            return args, {**kwargs, "self": self.bound}
        return [*args[:at], self.bound, *args[at:]], kwargs

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


def call_builtin(
    ctx: Context, node: ast.AST, path: str, function: Any, args: Args, kwargs: Kwargs, kind: Type | None = None
) -> SugaredValue:
    """A call of a function of weft's that is no operator, found again by its path when the program runs. kind: the type
    of what it gives, where its annotation does not say that.
    """
    kind = kind or _returned(function)
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
        result = ctx.emit(ctx.op("prim::CallFunction"), (name, tuple(operands), str(self.program.returns)), node)
        return spread(ctx, node, result)


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
    values: dict[str, SugaredValue] = {p.name: a for p, a in zip(positional, args, strict=False)}
    for name, value in kwargs.items():
        if name in values or all(p.name != name for p in parameters):
            ctx.fail(
                node, f"{'got two values for' if name in values else 'Unknown keyword'} argument '{name}': {shown}"
            )
        values[name] = value
    operands: list[Operand] = []
    for p in parameters:
        one = values.get(p.name)
        if one is None:
            if p.default is MISSING:
                ctx.fail(node, f"Argument {p.name} not provided: {shown}")
            one = default_value(ctx, p.default, p.name)
            assert one is not None
        if p.repeats and not is_several(one):
            one = ListValue([one] * p.repeats)
        operands.append(
            ctx.coerced(one.as_value(ctx, node, p.type), p.type, node, f"argument '{p.name}' of {shown}").operand
        )
    return operands


def is_several(value: SugaredValue) -> bool:
    """Whether a value is a list or tuple already, where one element would stand for a list of it."""
    kind = value.type if isinstance(value, Simple) else None
    return isinstance(value, (ListValue, TupleValue)) or isinstance(kind, (ListType, TupleType))


def default_value(ctx: Context, default: Any, name: str) -> SugaredValue | None:
    """The default of a parameter or field: of a list or dict a new one each time, so that no two calls share it."""
    if type(default) is list:
        parts = [default_value(ctx, v, name) for v in default]
        return None if None in parts else ListValue([p for p in parts if p is not None])
    return ctx.program.wrap(ctx, default, name)  # type: ignore[no-any-return]


class PythonFunction(SugaredValue):
    """A function of Python's. A call compiles it, save one marked @weft.jit.ignore, which is called as it is; `owner`
    is the object of such a method.
    """

    kind = "Python function"

    def __init__(self, function: Callable[..., Any], name: str, owner: Simple | None = None) -> None:
        self.function, self.name, self.owner = function, name, owner

    def call(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs, binders: int) -> SugaredValue:
        how = getattr(self.function, "__weft_script__", None)
        if how == "unused":
            return unused_result(ctx, node, self.name, self.function)
        if how == "ignore":
            return self.as_it_is(ctx, node, args, kwargs)
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

    def _signature(self, ctx: Context, node: ast.AST) -> Program:
        return ctx.program.python_signature(ctx, node, self.function, self.owner is not None)  # type: ignore[no-any-return]

    def as_it_is(self, ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
        """A node that calls Python when the program runs. What `*args` and `**kwargs` take goes along as it is."""
        signature = self._signature(ctx, node)
        kinds = {p.kind for p in inspect.signature(self.function).parameters.values()}
        by_name = [p.name for p in signature.parameters if p.keyword_only]
        count = len(signature.parameters) - len(by_name)
        more = args[count:] if inspect.Parameter.VAR_POSITIONAL in kinds else ()
        declared = {p.name for p in signature.parameters}
        words = {k: v for k, v in kwargs.items() if inspect.Parameter.VAR_KEYWORD in kinds and k not in declared}
        rest = {k: v for k, v in kwargs.items() if k not in words}
        bound = bound_operands(ctx, node, signature, args[: len(args) - len(more)], rest)
        owner = () if self.owner is None else (self.owner.operand,)
        extra, named = ([v.as_value(ctx, node).operand for v in values] for values in (more, words.values()))
        operands = (*owner, *bound[:count], *extra, *bound[count:], *named)
        name = ctx.program.link_python(self.function, self.name)
        node_args = (name, operands, (*by_name, *words), str(signature.returns))
        return spread(ctx, node, ctx.emit(ctx.op("prim::PythonOp"), node_args, node))


def unused_result(ctx: Context, node: ast.AST, name: str, function: Any) -> SugaredValue:
    """What stands for a call of a function that is marked as unused: an exception."""
    text = f"{name} is marked @weft.jit.unused: it must not be called from a scripted program"
    ctx.prim("RaiseException", node, constant(text, STR), constant("RuntimeError", STR))
    kind = ctx.program.python_result(ctx, node, function)
    return ctx.emit(ctx.op("prim::Uninitialized"), (str(kind),), node)


def overloads(name: str) -> list[Op]:
    """The entries of an operator, none if there is no such one. (Of in-place forms there are those that somebody has
    asked for: they are no entries.)"""
    return [op for op in PACKETS.get(name, []) if op.writes is None]
