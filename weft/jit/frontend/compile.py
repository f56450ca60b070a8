"""Compiling a function: its signature, its statements, its result; and finding what the names in it mean in Python."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from weft.ir.graph import Graph
from weft.jit.annotations import ENUMERATIONS, is_named_tuple, type_of_named_tuple, written
from weft.jit.errors import CompileError
from weft.jit.frontend import (  # noqa: F401  (each registers the syntax that it is about)
    assignments,
    calls,
    containers,
    expressions,
    loops,
    members,
    operations,
    strings,
    subscripts,
)
from weft.jit.frontend.branches import RESULT, joined
from weft.jit.frontend.builtins import ANNOTATE, builtin
from weft.jit.frontend.classes import Member, class_of_python
from weft.jit.frontend.context import Context
from weft.jit.frontend.exits import always_leaves
from weft.jit.frontend.functions import (
    ConstantDict,
    GradMode,
    NamedTupleClass,
    OperatorNamespace,
    Operators,
    PythonFunction,
    PythonModule,
    Scripted,
    overloads,
)
from weft.jit.frontend.outside import path_of, python_constant
from weft.jit.frontend.scope import Scope
from weft.jit.frontend.statements import run
from weft.jit.frontend.types import annotated_type, annotation_of, is_open
from weft.jit.frontend.values import Simple, SugaredValue, TupleValue
from weft.jit.program import MISSING, Parameter, Program
from weft.jit.source import Source, function_source
from weft.ops.op import OPS
from weft.ops.packet import Namespace, Packet
from weft.tensor.modes import enable_grad, no_grad
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import TupleType, Type

Names = Callable[[str], "tuple[Any] | None"]
_COMPILED: WeakKeyDictionary[Any, Program] = WeakKeyDictionary()
UNDERWAY: list[Any] = []


def names_of(function: Callable[..., Any]) -> Names:
    """What the names in a function mean: cells that it closes over, globals, builtins."""
    closed = inspect.getclosurevars(function).nonlocals if getattr(function, "__closure__", None) else {}
    space = getattr(function, "__globals__", {})
    return names_in(closed, space)


def names_in(*spaces: Mapping[str, Any]) -> Names:
    """What names mean in some mappings, and then in Python's builtins."""

    def find(name: str) -> tuple[Any] | None:
        for space in (*spaces, vars(builtins)):
            if name in space:
                return (space[name],)
        return None

    return find


class Linker:
    """Finds what one function refers to, and notes it in the function's program."""

    def __init__(self, program: Program, names: Names, compile_function: Callable[[Any], Program]) -> None:
        self.program, self.python_object, self._compile = program, names, compile_function
        self.around: Scope | None = None  # of the function that this one is defined in

    def resolve(self, ctx: Context, name: str, node: ast.AST) -> SugaredValue | None:
        """What a name that is no variable stands for. Raises CompileError for an object that programs cannot use."""
        known = self.around.find(name) if self.around is not None else None
        if isinstance(known, Simple) and not known.is_constant:
            ctx.fail(node, f"{name} is a variable of the function around {ctx.name}; pass it as an argument")
        if known is not None:
            return known
        found = self.python_object(name)
        if found is None:
            return None
        wrapped = self.wrap(ctx, found[0], name)
        if wrapped is None:
            ctx.fail(
                node,
                f"{name} is a {type(found[0]).__name__}: a scripted program can use numbers, texts, tensors, "
                "functions, modules, dtypes, and tuples of them from outside; pass other objects' parts as arguments",
            )
        return wrapped

    def wrap(self, ctx: Context, value: Any, name: str) -> SugaredValue | None:
        """A Python object as the compiler sees it, or None for one that programs cannot use."""
        plain = python_constant(value)
        if plain is not None:
            return plain
        if isinstance(value, (tuple, list)) and not is_named_tuple(type(value)):
            parts = [self.wrap(ctx, v, f"{name}[{i}]") for i, v in enumerate(value)]
            return None if any(p is None for p in parts) else TupleValue([p for p in parts if p is not None])
        if isinstance(value, Tensor):
            return self._tensor(ctx, value, name)
        if isinstance(value, enum.Enum):
            return Member(value)
        if isinstance(value, types.ModuleType):
            return PythonModule(value)
        if isinstance(value, Namespace):
            return OperatorNamespace(value)
        if type(value) is dict:
            held = {k: self.wrap(ctx, v, f"{name}[{k!r}]") for k, v in value.items()}
            return None if None in held.values() else ConstantDict(held)
        return builtin(value) or self._callable(ctx, value, name)

    def _callable(self, ctx: Context, value: Any, name: str) -> SugaredValue | None:
        if is_named_tuple(value):
            kind = type_of_named_tuple(value)
            assert isinstance(kind, TupleType)
            return NamedTupleClass(value, kind)
        if isinstance(value, Program):
            return Scripted(value)
        program = getattr(value, "__weft_program__", None)
        if isinstance(program, Program):
            return Scripted(program)
        if value is builtins.__dict__.get(name.rpartition(".")[2]):
            return None
        return self._function(value, name) or (class_of_python(value) if isinstance(value, type) else None)

    def _function(self, value: Any, name: str) -> SugaredValue | None:
        """A function of weft's, of module math, of the user's."""
        if getattr(value, "__weft_annotate__", False):
            return ANNOTATE
        if value is no_grad or value is enable_grad:
            return GradMode(value is enable_grad)
        module, own = getattr(value, "__module__", "") or "", getattr(value, "__name__", "")
        if module == "math" and f"math::{own}" in OPS:
            from weft.jit.frontend.functions import Entry

            return Entry(OPS[f"math::{own}"])
        path = path_of(value)
        if path is not None:
            space = path.partition(".")[2].rpartition(".")[0]
            packet = getattr(value, "packet", None)
            found = packet.overloads if isinstance(packet, Packet) else (overloads(f"aten::{own}") if not space else [])
            return Operators(path, [op for op in found if not op.host], value)
        if isinstance(value, (types.FunctionType, types.MethodType)) or getattr(value, "__weft_script__", None):
            return PythonFunction(value, name)
        return None

    def _tensor(self, ctx: Context, value: Tensor, name: str) -> Simple:
        """A tensor from outside: the program keeps it."""
        key = self.keep(value, name)
        made = ctx.builder.emit_raw(ctx.op("prim::GetAttr"), (None, key, "Tensor"), (tt.TENSOR,))
        return Simple(made.output, tt.TENSOR)

    def keep(self, value: Any, name: str) -> str:
        """The name under which the program keeps an object from outside."""
        return _unique(self.program.captured, name.replace(".", "_"), value)

    # ---- functions
    def local_function(self, ctx: Context, definition: ast.FunctionDef) -> SugaredValue:
        """A function that is defined within this one. Raises CompileError where it uses variables around it."""
        inner = type(self)(Program(f"{self.program.name}.{definition.name}"), self.python_object, self._compile)
        inner.around = ctx.scope
        return Scripted(compile_definition(definition, ctx.source, inner))

    def compiled(self, ctx: Context, node: ast.AST, function: Any) -> Program:
        """The program of a Python function that this one calls. Raises CompileError that also shows the call."""
        if function in UNDERWAY:
            ctx.fail(
                node,
                f"function '{getattr(function, '__name__', function)}' is called recursively. Recursive calls are "
                f"not supported; write a loop",
            )
        try:
            return self._compile(function)
        except CompileError as error:
            raise CompileError(
                f"{error}\n'{getattr(function, '__name__', function)}' is called here:\n{ctx.source.shown(node)}"
            ) from None

    def link(self, program: Program) -> str:
        """The name by which a graph calls another program."""
        return _unique(self.program.functions, program.name, program)

    def link_python(self, function: Any, name: str) -> str:
        """The name by which a graph calls Python."""
        return _unique(self.program.python, name, function)

    def python_signature(self, ctx: Context, node: ast.AST, function: Any) -> Program:
        """What a Python function takes and gives, by its annotations."""
        definition, source = function_source(function)
        inner = Context(
            definition.name,
            source,
            lambda name, node: None,
            Linker(Program(definition.name), names_of(function), self._compile),
        )
        skip = 1 if isinstance(function, types.MethodType) else 0
        parameters = parameters_of(inner, definition, function)[skip:]
        given = definition.returns
        return Program(definition.name, parameters, annotated_type(inner, given) if given is not None else tt.TENSOR)

    def member(self, ctx: Context, node: ast.AST, value: Simple, name: str) -> SugaredValue:
        """An attribute of an object: only Modules and members of enumerations have any."""
        known = ENUMERATIONS.get(value.type.name) if isinstance(value.type, tt.ClassType) else None
        if known is not None and name in ("name", "value"):
            kinds = {python_constant(m.value if name == "value" else m.name) for m in known}
            types_of = {k.type for k in kinds if k is not None}
            if len(types_of) == 1 and None not in kinds:
                return ctx.emit(ctx.op("prim::GetAttr"), (value.operand, name, str(types_of.pop())), node)
        ctx.fail(node, f"a value of type {value.type} has no attribute {name!r}")

    def elements(self, ctx: Context, node: ast.AST, value: Simple) -> list[SugaredValue]:
        """What an object is unpacked into: only containers of Modules are."""
        ctx.fail(node, f"a value of type {value.type} cannot be used as a tuple")

    def set_member(self, ctx: Context, node: ast.AST, value: Simple, name: str, given: SugaredValue) -> None:
        """Write an attribute of an object."""
        ctx.fail(node, f"a value of type {value.type} has no attribute {name!r}")


def _unique(table: dict[str, Any], name: str, value: Any) -> str:
    found = next((k for k, v in table.items() if v is value), None)
    if found is None:
        count, found = 0, name
        while found in table:
            count += 1
            found = f"{name}_{count}"
        table[found] = value
    return found


# ---- one function
def compile_python(function: Callable[..., Any]) -> Program:
    """The program of a Python function, compiled when first asked for. Raises CompileError."""
    plain = inspect.unwrap(function)
    found = _COMPILED.get(plain)
    if found is None:
        definition, source = function_source(plain)
        name = f"{plain.__module__}.{plain.__qualname__}".replace(".<locals>", "").replace("<", "").replace(">", "")
        program = Program(name, document=plain.__doc__ or "")
        UNDERWAY.append(plain)
        try:
            compile_definition(definition, source, Linker(program, names_of(plain), compile_python), plain)
        finally:
            UNDERWAY.pop()
        found = _COMPILED[plain] = program
    return found


def compile_definition(
    definition: ast.FunctionDef,
    source: Source,
    linker: Linker,
    function: Any = None,
    self_type: Type | None = None,
    loose: bool = False,
) -> Program:
    """Fill in the program of a definition. `function` has the default values, where there is a Python function.

    loose: what is annotated as Any is a tensor, or is inferred.
    """
    program = linker.program
    ctx = Context(program.name.rpartition(".")[2], source, lambda name, node: linker.resolve(ctx, name, node), linker)
    program.text = source.text
    program.parameters = parameters_of(ctx, definition, function, self_type)
    ctx.return_type = _returned(ctx, definition)
    if loose:  # weft's own modules say Any where any of PyTorch's arguments will do
        program.parameters = tuple(_as_tensor(p) if p.type is tt.ANY else p for p in program.parameters)
        ctx.return_type = None if "Any" in str(ctx.return_type) else ctx.return_type
    for p in program.parameters:
        ctx.scope.assign(p.name, Simple(ctx.builder.param(p.type, p.name), p.type))
    body = list(definition.body)
    if not always_leaves(body):
        body.append(ast.copy_location(ast.Return(None), body[-1]))
    run(ctx, body)
    program.returns = _result_type(ctx)
    program.graph = _finished(ctx, program.returns)
    return program


def _as_tensor(parameter: Parameter) -> Parameter:
    return replace(parameter, type=tt.optional(tt.TENSOR) if parameter.default is None else tt.TENSOR)


def _result_type(ctx: Context) -> Type:
    if ctx.return_type is not None:
        return ctx.return_type
    if not ctx.returned:
        return tt.NONE
    found, _ = ctx.returned[0]
    for kind, node in ctx.returned[1:]:
        both = joined(found, kind)
        if both is None:
            ctx.fail(
                node,
                f"Previous return statement returned a value of type {written(found)} but this return statement "
                f"returns a value of type {written(kind)}",
            )
        found = both
    return found


def finished_graph(ctx: Context, result: Simple) -> Graph:
    """The graph of what has been emitted, with this result."""
    return ctx.builder.graph([result.operand])


def _finished(ctx: Context, kind: Type) -> Graph:
    """The graph; values that stand for the result have its type now."""
    for value in ctx.pending:
        value.type = kind
    if ctx.blank is not None:
        ctx.blank.args = (str(kind),)
    result = ctx.scope.find(RESULT)
    return ctx.builder.graph([result.operand if isinstance(result, Simple) else None])


def _returned(ctx: Context, definition: ast.FunctionDef) -> Type | None:
    comment = _type_comment(definition)
    if comment is not None:
        return annotated_type(ctx, comment.returns)
    return None if definition.returns is None else annotated_type(ctx, definition.returns)


def _type_comment(definition: ast.FunctionDef) -> ast.FunctionType | None:
    if definition.type_comment is None:
        return None
    found = ast.parse(definition.type_comment, mode="func_type")
    for part in (*found.argtypes, found.returns):
        for piece in ast.walk(part):
            piece.lineno, piece.col_offset = definition.lineno, definition.col_offset  # type: ignore[attr-defined]
            piece.end_lineno = piece.end_col_offset = None  # type: ignore[attr-defined]
    return found


def parameters_of(
    ctx: Context, definition: ast.FunctionDef, function: Any = None, self_type: Type | None = None
) -> tuple[Parameter, ...]:
    """The parameters of a definition. What has neither annotation nor a number as default is a tensor."""
    spec = definition.args
    if spec.vararg is not None or spec.kwarg is not None:
        ctx.fail(
            spec.vararg or spec.kwarg or definition,
            "a function with *args or **kwargs cannot be compiled; name each argument",
        )
    comment = _type_comment(definition)
    positional = [*spec.posonlyargs, *spec.args]
    written: list[ast.expr | None] = [annotation_of(a) for a in (*positional, *spec.kwonlyargs)]
    if comment is not None and comment.argtypes and not is_open(comment):
        skipped = 1 if self_type is not None else 0
        written[skipped : skipped + len(comment.argtypes)] = comment.argtypes
    defaults = _defaults(ctx, definition, function)
    found: list[Parameter] = []
    for i, arg in enumerate((*positional, *spec.kwonlyargs)):
        default = defaults.get(arg.arg, MISSING)
        if i == 0 and self_type is not None:
            found.append(Parameter(arg.arg, self_type))
            continue
        annotation = written[i]
        kind = annotated_type(ctx, annotation) if annotation is not None else _inferred(default)
        found.append(Parameter(arg.arg, kind, default, i >= len(positional)))
    return tuple(found)


def _inferred(default: Any) -> Type:
    plain = None if default is MISSING or default is None else python_constant(default)
    return tt.TENSOR if plain is None else plain.type


def _defaults(ctx: Context, definition: ast.FunctionDef, function: Any) -> dict[str, Any]:
    if function is not None:
        found = inspect.signature(function, follow_wrapped=True).parameters.values()
        return {p.name: p.default for p in found if p.default is not inspect.Parameter.empty}
    from weft.jit.frontend.types import python_value

    spec = definition.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = [
        *zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True),
        *((a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None),
    ]
    return {a.arg: python_value(ctx, d) if not isinstance(d, ast.Constant) else d.value for a, d in pairs}
