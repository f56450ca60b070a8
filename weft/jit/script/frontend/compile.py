"""Finding what the names in a function mean in Python, and the programs of the functions that they stand for."""

from __future__ import annotations

import ast
import builtins
import contextlib
import enum
import inspect
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from weft.jit.errors import CompileError
from weft.jit.program import Parameter, Program
from weft.jit.script.annotations import ENUMERATIONS, is_named_tuple, type_of_named_tuple
from weft.jit.script.frontend.classes.from_python import Member, class_of_python
from weft.jit.script.frontend.classes.inherited import key_of, super_of
from weft.jit.script.frontend.classes.interfaces import (
    check_implements,
    extends,
    interface_member,
    interface_of,
    methods_of,
)
from weft.jit.script.frontend.classes.script_classes import (
    SETTER,
    Description,
    ObjectMethod,
    description_of_value,
    object_member,
    set_object_member,
)
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.definitions import compile_definition, parameters_of, returned_type
from weft.jit.script.frontend.functions import Entry, Operators, PythonFunction, Scripted, TypedBuiltin, overloads
from weft.jit.script.frontend.outside import path_of, python_constant
from weft.jit.script.frontend.outside_values import Names, note
from weft.jit.script.frontend.python.builtins import ANNOTATE, builtin
from weft.jit.script.frontend.python.foreign import (
    CalledModule,
    ConstantDict,
    GradMode,
    NamedBlock,
    NamedTupleClass,
    OperatorNamespace,
    PythonModule,
)
from weft.jit.script.frontend.scope import Scope
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, TupleValue, constant
from weft.jit.script.marks import prepared
from weft.jit.script.source import function_source, text_source
from weft.nn.modules.module import Module
from weft.ops.op import OPS
from weft.ops.packet import Namespace, Packet
from weft.runtime.generator import Generator, default_generator
from weft.tensor.modes import enable_grad, no_grad
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import TupleType, Type

_COMPILED: WeakKeyDictionary[Any, Program] = WeakKeyDictionary()
UNDERWAY: list[Any] = []
_AS_DECLARED: dict[tuple[Any, Any], Program] = {}


def names_of(function: Callable[..., Any]) -> Names:
    """What the names in a function mean, whenever they are asked for: cells that it closes over, globals, builtins."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = dict(zip(names, getattr(function, "__closure__", None) or (), strict=False))
    elsewhere = names_in(getattr(function, "__globals__", {}))

    def find(name: str) -> tuple[Any] | None:
        with contextlib.suppress(KeyError, ValueError):  # (a variable that has no value yet is left out)
            return (cells[name].cell_contents,)
        return elsewhere(name)

    return find


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
        self.defines: Description | None = None  # the class whose __init__ this is

    def resolve(self, ctx: Context, name: str, node: ast.AST) -> SugaredValue | None:
        """What a name that is no variable stands for. Raises CompileError for an object that programs cannot use."""
        if name == "super":
            return TypedBuiltin(super_of)
        outer = self.around.find(name) if self.around is not None else None
        if isinstance(outer, Simple) and not outer.is_constant:
            ctx.fail(node, f"{name} is a variable of the function around {ctx.name}; pass it as an argument")
        if outer is not None:
            return outer
        boxed = self.python_object(name)
        if boxed is None:
            return None
        wrapped = self.wrap(ctx, boxed[0], name)
        if wrapped is None:
            ctx.fail(
                node,
                f"{name} is a {type(boxed[0]).__name__}: a scripted program can use numbers, texts, tensors, "
                "functions, modules, dtypes, and tuples of them from outside; pass other objects' parts as arguments, "
                "or use it in a function marked @weft.jit.ignore",
            )
        note(self.program, self.python_object, name, boxed[0])
        return wrapped

    def wrap(self, ctx: Context, value: Any, name: str) -> SugaredValue | None:
        """A Python object as the compiler sees it, or None for one that programs cannot use."""
        value = prepared(value)
        plain = python_constant(value)
        if plain is not None:
            return plain
        if isinstance(value, (tuple, list)) and not is_named_tuple(type(value)):
            parts = [self.wrap(ctx, v, f"{name}[{i}]") for i, v in enumerate(value)]
            usable = [p for p in parts if p is not None]
            if len(usable) < len(parts):
                return None
            return ListValue(usable) if isinstance(value, list) and _is_of_one_type(usable) else TupleValue(usable)
        if isinstance(value, Tensor):
            return self._tensor(ctx, value, name)
        if isinstance(value, Generator):  # the default one is what programs draw from that name none
            return constant(None, tt.NONE) if value is default_generator else self._held(ctx, value, name, tt.GENERATOR)
        if isinstance(value, enum.Enum):
            return Member(value)
        if isinstance(value, (types.ModuleType, types.SimpleNamespace)):
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
        if isinstance(value, Module):
            return CalledModule(value, name)
        called = inspect.getattr_static(type(value), "__call__", None)
        if getattr(called, "__weft_script__", None) is not None:
            return PythonFunction(types.MethodType(called, value), name)
        return self._function(value, name) or (class_of_python(value) if isinstance(value, type) else None)

    def _function(self, value: Any, name: str) -> SugaredValue | None:
        """A function of weft's, of module math, of the user's."""
        if getattr(value, "__weft_annotate__", False):
            return ANNOTATE
        if value is no_grad or value is enable_grad:
            return GradMode(value is enable_grad)
        if getattr(value, "__weft_names_block__", False):
            return NamedBlock()
        module, own = getattr(value, "__module__", "") or "", getattr(value, "__name__", "")
        if module in ("math", "cmath") and f"{module}::{own}" in OPS:
            return Entry(OPS[f"{module}::{own}"])
        path = path_of(value)
        if path is not None:
            space = path.partition(".")[2].rpartition(".")[0]
            packet = getattr(value, "packet", None)
            candidates = (
                packet.overloads if isinstance(packet, Packet) else (overloads(f"aten::{own}") if not space else [])
            )
            return Operators(path, [op for op in candidates if not op.host], value)
        if isinstance(value, (types.FunctionType, types.MethodType)) or getattr(value, "__weft_script__", None):
            return PythonFunction(value, name)
        return None

    def _tensor(self, ctx: Context, value: Tensor, name: str) -> Simple:
        return self._held(ctx, value, name, tt.TENSOR)

    def _held(self, ctx: Context, value: Any, name: str, kind: Type) -> Simple:
        """A tensor or generator from outside: the program keeps it."""
        key = self.keep(value, name)
        node = ctx.builder.emit_raw(ctx.op("prim::GetAttr"), (None, key, str(kind)), (kind,))
        return Simple(node.output, kind)

    def keep(self, value: Any, name: str) -> str:
        """The name under which the program keeps an object from outside."""
        return _unique(self.program.captured, name.replace(".", "_"), value)

    # ---- functions
    def local_function(self, ctx: Context, definition: ast.FunctionDef) -> SugaredValue:
        """A function that is defined within this one. Raises CompileError where it uses variables around it."""
        inner = type(self)(Program(f"{self.program.name}.{definition.name}"), self.python_object, self._compile)
        inner.around, inner.program.outside = ctx.scope, self.program.outside
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

    def compiled_as(self, ctx: Context, node: ast.AST, function: Any, signature: Any) -> Program:
        """The program of a function with the types that another definition of it declares. Raises CompileError."""
        key = (function, signature)
        program = _AS_DECLARED.get(key)
        if program is None:
            definition, source = function_source(function)
            inner = Linker(Program(f"{function.__module__}.{function.__qualname__}"), names_of(function), self._compile)
            parameters = parameters_of_function(inner, signature)
            program = _AS_DECLARED[key] = compile_definition(definition, source, inner, function, types=parameters)
        return program

    def method_of_class(self, ctx: Context, node: ast.AST, owner: Description, name: str) -> Program:
        """The program of a method of a class. Raises CompileError that also shows the call."""
        shown = f"{owner.cls.__name__}.{name.removesuffix(SETTER)}"
        if (owner, name) in UNDERWAY:
            ctx.fail(node, f"method '{shown}' is called recursively. Recursive calls are not supported; write a loop")
        try:
            return method_of_class(owner, name)
        except CompileError as error:
            raise CompileError(f"{error}\n'{shown}' is called here:\n{ctx.source.shown(node)}") from None

    def program_of_text(self, text: str, names: Mapping[str, Any]) -> Program:
        """The program of a definition in text, in which the names mean these types."""
        definitions, source = text_source(text)
        inner = Linker(Program(definitions[0].name), names_in(names), self._compile)
        return compile_definition(definitions[0], source, inner)

    def link(self, program: Program) -> str:
        """The name by which a graph calls another program."""
        return _unique(self.program.functions, program.name, program)

    def link_python(self, function: Any, name: str) -> str:
        """The name by which a graph calls Python."""
        return _unique(self.program.python, name, function)

    def python_signature(self, ctx: Context, node: ast.AST, function: Any, is_method: bool = False) -> Program:
        """What a Python function takes and gives, by its annotations; a method without its object."""
        definition, source = function_source(function)
        inner = Context(
            definition.name,
            source,
            lambda name, node: None,
            Linker(Program(definition.name), names_of(function), self._compile),
        )
        skip = 1 if is_method or isinstance(function, types.MethodType) else 0
        parameters = parameters_of(inner, definition, function, tt.ANY if skip else None, True)[skip:]
        return Program(definition.name, parameters, returned_type(inner, definition, function) or tt.TENSOR)

    def python_result(self, ctx: Context, node: ast.AST, function: Any) -> Type:
        """The type of what a Python function gives, by its annotation."""
        definition, source = function_source(function)
        linker = Linker(Program(definition.name), names_of(function), self._compile)
        inner = Context(definition.name, source, lambda name, node: None, linker)
        return returned_type(inner, definition, function) or tt.TENSOR

    def member(self, ctx: Context, node: ast.AST, value: Simple, name: str) -> SugaredValue:
        """An attribute of an object: of a class of the user's, or a member of an enumeration."""
        interface = interface_of(value.type)
        if interface is not None:
            return interface_member(ctx, node, value, interface, name)
        owner = description_of_value(value)
        if owner is not None:
            return object_member(ctx, node, value, owner, name)
        members = ENUMERATIONS.get(value.type.name) if isinstance(value.type, tt.ClassType) else None
        if members is not None and name in ("name", "value"):
            kinds = {python_constant(m.value if name == "value" else m.name) for m in members}
            types_of = {k.type for k in kinds if k is not None}
            if len(types_of) == 1 and None not in kinds:
                return ctx.emit(ctx.op("prim::GetAttr"), (value.operand, name, str(types_of.pop())), node)
        ctx.fail(node, f"a value of type {value.type} has no attribute {name!r}")

    def implements(self, ctx: Context, node: ast.AST, value: Simple, kind: tt.ClassType) -> bool:
        """Whether an object may stand for an interface. Raises CompileError for methods of other signatures."""
        interface, owner = interface_of(kind), description_of_value(value)
        if interface is None or owner is None:
            return False
        if interface_of(value.type) is not None:
            return extends(ctx, node, interface, owner.cls)
        for name in methods_of(interface):
            if not owner.has_method(name):
                ctx.fail(node, f"'{owner.cls.__name__}' has no method '{name}' of the interface '{interface.__name__}'")
            check_implements(ctx, node, interface, name, self.method_of_class(ctx, node, owner, name))
        return True

    def class_of_value(self, ctx: Context, node: ast.AST, value: Simple) -> type | None:
        """The class of an object of the user's; None for what is no such object."""
        owner = description_of_value(value)
        return None if owner is None else owner.cls

    def method_of_base(self, ctx: Context, node: ast.AST, value: Simple, base: type, name: str) -> SugaredValue:
        """The method of a class that an object's class is derived from."""
        owner = description_of_value(value)
        assert owner is not None
        key = key_of(owner.cls, base, name)
        owner.inherited[key] = vars(base)[name]
        return ObjectMethod(owner, value, key)

    def is_module(self, value: Simple) -> bool:
        """Whether a value is a Module."""
        return False

    def is_module_of(self, ctx: Context, value: Simple, kinds: ast.expr) -> bool | None:
        """Whether a Module is of one of some classes; None for what is no Module."""
        return None

    def elements(self, ctx: Context, node: ast.AST, value: Simple) -> list[SugaredValue]:
        """What an object is unpacked into: only containers of Modules are."""
        ctx.fail(node, f"a value of type {value.type} cannot be used as a tuple")

    def set_member(self, ctx: Context, node: ast.AST, value: Simple, name: str, new_value: SugaredValue) -> None:
        """Write an attribute of an object."""
        owner = description_of_value(value)
        if owner is not None:
            return set_object_member(ctx, node, value, owner, name, new_value)
        ctx.fail(node, f"a value of type {value.type} has no attribute {name!r}")


def _is_of_one_type(items: Sequence[SugaredValue]) -> bool:
    if items and all(type(p) is ListValue for p in items):
        return _is_of_one_type([p for inner in items if isinstance(inner, ListValue) for p in inner.items])
    return all(isinstance(p, Simple) for p in items) and len({p.type for p in items if isinstance(p, Simple)}) == 1


def _unique(table: dict[str, Any], name: str, value: Any) -> str:
    key = next((k for k, v in table.items() if v is value), None)
    if key is None:
        count, key = 0, name
        while key in table:
            count += 1
            key = f"{name}_{count}"
        table[key] = value
    return key


def parameters_of_function(linker: Linker, function: Any, self_type: Type | None = None) -> tuple[Parameter, ...]:
    """The parameters that a definition declares. Raises CompileError."""
    definition, source = function_source(function)
    ctx = Context(definition.name, source, lambda name, node: None, linker)
    return parameters_of(ctx, definition, function, self_type)


# ---- one function
def compile_python(function: Callable[..., Any]) -> Program:
    """The program of a Python function, compiled when first asked for. Raises CompileError."""
    plain = inspect.unwrap(function)
    compiled = _COMPILED.get(plain)
    if compiled is None:
        definition, source = function_source(plain)
        name = f"{plain.__module__}.{plain.__qualname__}".replace(".<locals>", "").replace("<", "").replace(">", "")
        held = weakref.ref(plain)
        program = Program(name, document=plain.__doc__ or "", outside=[], forget=lambda: _COMPILED.pop(held(), None))
        UNDERWAY.append(plain)
        try:
            compile_definition(definition, source, Linker(program, names_of(plain), compile_python), plain)
        finally:
            UNDERWAY.pop()
        compiled = _COMPILED[plain] = program
    return compiled


def method_of_class(owner: Description, name: str) -> Program:
    """The program of a method of a class, compiled when first asked for. Raises CompileError."""
    compiled = owner.programs.get(name)
    if compiled is None:
        definition, source, function, names = owner.definition(name)
        program = Program(f"{owner.name}.{name}", document=getattr(function, "__doc__", "") or "")
        linker = Linker(program, _first_of(names_in(names), names_of(function)), compile_python)
        linker.defines = owner if function is not None and getattr(function, "__name__", "") == "__init__" else None
        UNDERWAY.append((owner, name))
        try:
            self_type = None if isinstance(owner.raw(name), classmethod) else owner.type
            compile_definition(definition, source, linker, function, self_type)
        finally:
            UNDERWAY.pop()
        compiled = owner.programs[name] = program
    return compiled


def _first_of(first: Names, second: Names) -> Names:
    def find(name: str) -> tuple[Any] | None:
        boxed = first(name)
        return boxed if boxed is not None and name not in vars(builtins) else second(name)

    return find
