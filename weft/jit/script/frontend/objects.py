"""Modules while programs are compiled: what `self.name` is, and how methods are compiled when they are called."""

from __future__ import annotations

import ast
import contextlib
import inspect
import typing
import weakref
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from weft.ir.builder import Builder
from weft.jit.errors import CompileError
from weft.jit.program import MISSING, Parameter, Program, accepted
from weft.jit.script.annotations import CLASSES, ENUMERATIONS, UnknownType, type_of_annotation, written
from weft.jit.script.frontend.attributes import (
    describe_classes,
    is_constant,
    is_weft_own,
    may_stay_in_python,
    type_of_attribute,
    type_of_object,
)
from weft.jit.script.frontend.classes.inherited import key_of
from weft.jit.script.frontend.classes.interfaces import check_implements, interface_of, methods_of
from weft.jit.script.frontend.classes.script_classes import SETTER, description_of, is_described
from weft.jit.script.frontend.compile import (
    UNDERWAY,
    Linker,
    compile_python,
    names_in,
    names_of,
    parameters_of_function,
)
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.definitions import compile_definition
from weft.jit.script.frontend.functions import Builtin, PythonFunction, bound_operands, spread
from weft.jit.script.frontend.module_hooks import compile_call, has_hooks
from weft.jit.script.frontend.submodules import WALKS, Element, Submodules, read_member, view_of, walked
from weft.jit.script.frontend.types import python_value
from weft.jit.script.frontend.values import NOTHING, Simple, SugaredValue, constant
from weft.jit.script.overloads import first_that_takes, overloads_of
from weft.jit.script.source import Source, function_source
from weft.nn.modules.module import Module
from weft.ops.op import OPS
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import ClassType, Type, class_of, tuple_of

OBJECTS: WeakValueDictionary[str, Any] = WeakValueDictionary()  # scripted Modules by the names of their types


class ModuleLinker(Linker):
    """Finds what a method refers to: the members of Modules besides what functions know."""

    def member(self, ctx: Context, node: ast.AST, value: Simple, name: str) -> SugaredValue:
        if not _is_module(value):
            return super().member(ctx, node, value, name)
        owner = self._object(ctx, node, value)
        if name == "__call__":
            name = "__call__" if has_hooks(owner) else "forward"
        stored = self._stored(ctx, node, value, owner, name)
        if stored is not None:
            return stored
        cls = owner._original_class()
        raw = owner._raw(name)
        if isinstance(raw, property):
            return Method(owner, value, name).call(ctx, node, [], {}, 1)
        if name in owner._programs:
            return Method(owner, value, name)
        views = view_of(ctx, node, value, owner, name)
        if views is not None:
            return views
        if isinstance(raw, staticmethod):
            return PythonFunction(raw.__func__, name)
        if name in WALKS and getattr(Module, name, None) is getattr(cls, name, None):
            return Builtin(name, lambda c, n, args, kwargs: walked(c, value, owner, name))
        if raw is not None and (callable(raw) or hasattr(raw, "function")):
            return self._method(owner, value, name, raw)
        wrapped = None if raw is None else self.wrap(ctx, raw, name)
        if wrapped is None:
            ctx.fail(node, f"Module '{cls.__name__}' has no attribute '{name}'{_why(owner, name)}")
        return wrapped

    def implements(self, ctx: Context, node: ast.AST, value: Simple, kind: ClassType) -> bool:
        interface = interface_of(kind)
        if interface is None or not isinstance(value.type, ClassType) or not _is_module(value):
            return super().implements(ctx, node, value, kind)
        owner = self._object(ctx, node, value)
        for name in methods_of(interface):
            if not hasattr(owner._original_class(), name):
                wanted = f"'{name}' of the interface '{interface.__name__}'"
                ctx.fail(node, f"'{owner.original_name}' has no method {wanted}")
            check_implements(ctx, node, interface, name, Method(owner, value, name)._program(ctx, node))
        return True

    def class_of_value(self, ctx: Context, node: ast.AST, value: Simple) -> type | None:
        if not _is_module(value):
            return super().class_of_value(ctx, node, value)
        return self._object(ctx, node, value)._original_class()  # type: ignore[no-any-return]

    def method_of_base(self, ctx: Context, node: ast.AST, value: Simple, base: type, name: str) -> SugaredValue:
        if not _is_module(value):
            return super().method_of_base(ctx, node, value, base, name)
        owner = self._object(ctx, node, value)
        key = key_of(owner._original_class(), base, name)
        if key not in owner._programs:
            compile_method(owner, key, vars(base)[name], loose=is_weft_own(base))
        return Method(owner, value, key)

    def is_module(self, value: Simple) -> bool:
        return _is_module(value)

    def is_module_of(self, ctx: Context, value: Simple, kinds: ast.expr) -> bool | None:
        if not _is_module(value):
            return None
        evaluated = python_value(ctx, kinds)
        classes = evaluated if isinstance(evaluated, tuple) else (evaluated,)
        cls = self._object(ctx, kinds, value)._original_class()
        return any(isinstance(c, type) and issubclass(cls, c) for c in classes)

    def _object(self, ctx: Context, node: ast.AST, value: Simple) -> Any:
        assert isinstance(value.type, ClassType)
        module = OBJECTS.get(value.type.name)
        if module is None:
            ctx.fail(node, f"the Module of type {value.type} is gone")
        return module

    def _method(self, owner: Any, value: Simple, name: str, raw: Any) -> SugaredValue:
        if getattr(raw, "__weft_script__", None) in ("ignore", "unused"):
            return PythonFunction(raw, f"{value.type}.{name}", value)
        declared = overloads_of(getattr(raw, "function", raw))
        return OverloadedMethod(owner, value, name, declared) if declared else Method(owner, value, name)

    def _stored(self, ctx: Context, node: ast.AST, value: Simple, owner: Any, name: str) -> SugaredValue | None:
        """A parameter, buffer, submodule, constant or attribute of an object; None where it has no such."""
        fields = owner.__dict__
        for table in ("_parameters", "_buffers"):
            if name in fields[table]:
                return self._tensor_member(ctx, node, value, owner, fields[table][name], name)
        if name in fields["_modules"]:
            inner = fields["_modules"][name]
            kind = type_of_attribute(owner, name)
            if inner is not None and kind is not None and interface_of(kind) is not None:
                submodule = read_member(ctx, node, value, name, class_of(inner._script_name))
                return ctx.coerced(submodule, kind, node)
            return NOTHING if inner is None else read_member(ctx, node, value, name, class_of(inner._script_name))
        if name == "_modules":
            return Submodules(owner, value)
        if name not in fields or name in owner._programs:
            return None
        held = fields[name]
        if is_constant(owner, name):
            return self.wrap(ctx, held, name)
        kind = type_of_attribute(owner, name)
        if kind is not None and interface_of(kind) is not None:
            self._check_held(ctx, node, held, kind)
        wrapped = self.wrap(ctx, held, name) if kind is None else None
        if kind is None and wrapped is None:
            describe_classes(held)
            kind = type_of_attribute(owner, name)
        if isinstance(kind, ClassType) and kind.name in CLASSES and is_described(type(held)):
            self._check_fields(ctx, node, held)
        return wrapped if kind is None else read_member(ctx, node, value, name, kind)

    def _check_fields(self, ctx: Context, node: ast.AST, held: Any) -> None:
        """Raises CompileError where an object's attribute is not of the type that its class gives it."""
        described = description_of(type(held))
        if described.has_method("__init__"):
            with contextlib.suppress(CompileError):  # shown where the program asks for what it would have said
                self.method_of_class(ctx, node, described, "__init__")
        for name, kind in described.attributes.items():
            value = getattr(held, "__dict__", {}).get(name, MISSING)
            if value is not MISSING and accepted(value, kind) is MISSING:
                ctx.fail(
                    node, f"attribute '{name}' of {type(held).__name__} is a {type(value).__name__}, where its class "
                          f"says {written(kind)}; annotate what __init__ takes",
                )

    def _check_held(self, ctx: Context, node: ast.AST, held: Any, kind: Type) -> None:
        """Raises CompileError where an attribute's object does not do what the interface says that annotates it."""
        describe_classes(held)
        held_type = type_of_object(held)
        if held_type is None or not ctx.implements(Simple(None, held_type), kind, node):
            ctx.fail(node, f"an object of type {type(held).__name__} does not do what {kind} asks for")

    def _tensor_member(
        self, ctx: Context, node: ast.AST, value: Simple, owner: Any, held: Any, name: str
    ) -> SugaredValue:
        kind = type_of_attribute(owner, name)
        if held is None and not isinstance(kind, tt.OptionalType):
            return NOTHING
        return read_member(ctx, node, value, name, kind or tt.TENSOR)

    def set_member(self, ctx: Context, node: ast.AST, value: Simple, name: str, new_value: SugaredValue) -> None:
        if not _is_module(value):
            return super().set_member(ctx, node, value, name, new_value)
        owner = self._object(ctx, node, value)
        fields = owner.__dict__
        if is_constant(owner, name):
            ctx.fail(node, f"{name} is a constant of the Module and cannot be written")
        if name in fields["_parameters"] or name in fields["_modules"]:
            ctx.fail(node, f"{name} is a parameter or submodule of the Module: a program cannot replace it")
        raw = owner._raw(name)
        if isinstance(raw, property) and raw.fset is not None:
            Method(owner, value, f"{name}{SETTER}").call(ctx, node, [new_value], {}, 1)
            return None
        kind = tt.TENSOR if name in fields["_buffers"] else type_of_attribute(owner, name)
        if kind is None or (name not in fields and name not in fields["_buffers"]):
            ctx.fail(
                node, f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?"
            )
        simple = ctx.stored(new_value.as_value(ctx, node, kind), kind, node, f"attribute '{name}'")
        ctx.emit(ctx.op("prim::SetAttr"), (value.operand, name, simple.operand), node, ())
        return None

    def elements(self, ctx: Context, node: ast.AST, value: Simple) -> list[SugaredValue]:
        """The submodules of a container (ModuleList, Sequential)."""
        if not _is_module(value):
            return super().elements(ctx, node, value)
        owner = self._object(ctx, node, value)
        cls = owner._original_class()
        if not hasattr(cls, "__iter__"):
            ctx.fail(
                node,
                f"Module '{cls.__name__}' cannot be used as a tuple: only ModuleList, Sequential and "
                f"ModuleDict have elements",
            )
        inner = owner.__dict__["_modules"]
        held = owner.__dict__["_parameters"]
        if held and not inner:  # ParameterList, ParameterDict
            return [constant(k, tt.STR) for k in held] if hasattr(cls, "keys") else [
                read_member(ctx, node, value, n, tt.TENSOR) for n in held
            ]
        if hasattr(cls, "keys"):
            return [constant(k, tt.STR) for k in inner]
        return [Element(m, value, n) for n, m in inner.items()]


def _is_module(value: Simple) -> bool:
    kind = value.type
    return isinstance(kind, ClassType) and kind.name not in ENUMERATIONS and kind.name not in CLASSES


def _why(owner: Any, name: str) -> str:
    if name in owner.__dict__:
        kind = type(owner.__dict__[name]).__name__
        return f": it is a {kind}, which a scripted program cannot hold; annotate it in the class, or pass its parts"
    return ""


class Method(SugaredValue):
    """A method of a Module, compiled when it is called."""

    kind = "method"

    def __init__(self, owner: Any, value: Simple, name: str) -> None:
        self.owner, self.value, self.name = owner, value, name

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        try:
            program = self._program(ctx, node)
            operands = bound_operands(ctx, node, program, args, kwargs, skipped=1)
        except CompileError:
            if not may_stay_in_python(self.owner) or promised_type(self.owner._original_class(), self.name) is None:
                raise
            return self._as_it_is(ctx, node, args, kwargs)
        ctx.program.link(program)
        op = ctx.op("prim::CallMethod")
        result = ctx.emit(op, (self.value.operand, self.name, tuple(operands), str(program.returns)), node)
        return spread(ctx, node, result)

    def _program(self, ctx: Context, node: ast.AST) -> Program:
        program = self.owner._programs.get(self.name)
        if program is not None:
            return program  # type: ignore[no-any-return]
        if (id(self.owner), self.name) in UNDERWAY:
            ctx.fail(
                node, f"method '{self.name}' is called recursively. Recursive calls are not supported; write a loop"
            )
        try:
            return self.owner._compiled(self.name)  # type: ignore[no-any-return]
        except CompileError as error:
            shown = ctx.source.shown(node)
            raise CompileError(f"{error}\n'{self.name}' is called here:\n{shown}") from None

    def _as_it_is(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]
    ) -> SugaredValue:
        """A call of one of weft's own modules whose Python cannot be compiled: it runs as it is."""
        arguments = [a.as_value(ctx, node) for a in self._by_position(ctx, node, args, kwargs)]
        operands = tuple(g.operand for g in arguments)
        kind = promised_type(self.owner._original_class(), self.name, [g.type for g in arguments])
        result = ctx.emit(ctx.op("prim::CallMethod"), (self.value.operand, self.name, operands, str(kind)), node)
        return spread(ctx, node, result)

    def _by_position(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]
    ) -> list[SugaredValue]:
        """The arguments in the order of the method's parameters, as far as any is given."""
        if not kwargs:
            return list(args)
        try:
            bound = inspect.signature(getattr(self.owner._original_class(), self.name)).bind(None, *args, **kwargs)
        except TypeError as problem:
            ctx.fail(node, str(problem))
        bound.apply_defaults()
        arguments = [v if isinstance(v, SugaredValue) else ctx.program.wrap(ctx, v, self.name) for v in bound.args[1:]]
        if None in arguments or bound.kwargs:
            ctx.fail(node, f"{self.name}() cannot be called in this way; give its arguments by position")
        return arguments


class OverloadedMethod(SugaredValue):
    """A method that is compiled for several signatures, each under a name of its own."""

    kind = "method"

    def __init__(self, owner: Any, value: Simple, name: str, declared: Sequence[Any]) -> None:
        self.owner, self.value, self.name, self.declared = owner, value, name, declared

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        methods = {self._program(i): Method(self.owner, self.value, self._name(i)) for i in range(len(self.declared))}
        arguments = [self.value, *args]
        return first_that_takes(
            ctx, node, self.name, list(methods), arguments, kwargs,
            lambda p: methods[p].call(ctx, node, args, kwargs, 1),
        )

    def _name(self, i: int) -> str:
        return f"{self.name}__{i}"

    def _program(self, i: int) -> Program:
        program = self.owner._programs.get(self._name(i))
        if program is None:
            function = getattr(self.owner._original_class(), self.name)
            program = compile_method(self.owner, self._name(i), function, self.declared[i])
        return program  # type: ignore[no-any-return]


def promised_type(cls: type, name: str, argument_types: Sequence[Type] = ()) -> Type | None:
    """The type that a method's annotation promises for arguments of these types, a tensor for Any; None where it says
    what programs do not know.
    """
    try:
        hints = typing.get_type_hints(getattr(cls, name))
        promised = hints.pop("return", Tensor)
        for free in getattr(promised, "__parameters__", ()):  # the type of an argument, whatever it is
            promised = promised[
                next((g for h, g in zip(hints.values(), argument_types, strict=False) if h is free), Tensor)
            ]
        return _loosened(type_of_annotation(promised))
    except (UnknownType, NameError):
        return None


GETSTATE, SETSTATE = "__getstate__", "__setstate__"


def _loosened(kind: Type) -> Type:
    if isinstance(kind, tt.TupleType) and not kind.name:
        return tuple_of(*map(_loosened, kind.elements))
    return tt.TENSOR if kind is tt.ANY else kind


def compile_method(owner: Any, name: str, function: Any, signature: Any = None, loose: bool | None = None) -> Program:
    """The program of a method of a scripted Module; `signature` declares its types, where it is an overload; loose: see
    compile_definition (None: for weft's own Modules). Raises CompileError.
    """
    if name == "__call__":
        program = compile_call(owner, ModuleLinker)
        owner._add(name, program)
        return program
    plain = inspect.unwrap(function)
    definition, source = function_source(plain)
    held = weakref.ref(owner)
    program = Program(f"{owner._script_name}.{name}", document=plain.__doc__ or "")
    if signature is None:
        program.outside, program.forget = [], lambda: _forget(held(), name)
    UNDERWAY.append((id(owner), name))
    try:
        linker = ModuleLinker(program, names_of(plain), compile_python)
        loose = is_weft_own(owner._original_class()) if loose is None else loose
        self_type = class_of(owner._script_name)
        types = _state_given(owner, name, definition) if signature is None else parameters_of_function(
            linker, signature, self_type
        )
        compile_definition(definition, source, linker, plain, self_type, loose, types)
    finally:
        UNDERWAY.pop()
    owner._add(name, program)
    return program


def _state_given(owner: Any, name: str, definition: ast.FunctionDef) -> tuple[Parameter, ...]:
    """The parameter of __setstate__, where nothing says its type: what __getstate__ of the Module gives."""
    if name != SETSTATE or len(definition.args.args) != 2 or definition.type_comment or owner._raw(GETSTATE) is None:
        return ()
    state = definition.args.args[1]
    if state.annotation is not None:
        return ()
    return (Parameter(state.arg, owner._compiled(GETSTATE).returns),)


def check_module(owner: Any, kind: Type | None) -> None:
    """Raises CompileError for a scripted Module that does not implement an interface."""
    linker = ModuleLinker(Program("assignment"), names_in({}), compile_python)
    ctx = Context("assignment", Source("<assignment>", ""), lambda name, node: None, linker)
    assert isinstance(kind, ClassType)
    linker.implements(ctx, ast.Pass(lineno=1, col_offset=0), Simple(None, class_of(owner._script_name)), kind)


def _forget(owner: Any, name: str) -> None:
    if owner is not None and owner._programs.pop(name, None) is not None:
        owner.__dict__.pop(name, None)


def compile_call_of(owner: Any) -> Program:
    """A `forward` that calls that of one of weft's own modules, whose Python cannot be compiled."""
    cls = owner._original_class()
    hints = typing.get_type_hints(cls.forward)
    kind = promised_type(cls, "forward", [tt.ANY]) or tt.TENSOR
    parameters = [Parameter("self", class_of(owner._script_name))]
    for p in list(inspect.signature(cls.forward).parameters.values())[1:]:
        if p.kind is p.POSITIONAL_OR_KEYWORD:  # a state of any kind may be given, or left out
            is_open = p.default is not p.empty or isinstance(hints.get(p.name), typing.TypeVar)
            given_type, default = tt.ANY if is_open else tt.TENSOR, MISSING if p.default is p.empty else p.default
            parameters.append(Parameter(p.name, given_type, default))
    program = Program(f"{owner._script_name}.forward", tuple(parameters), kind)
    builder = Builder("forward")
    params = [builder.param(p.type, p.name) for p in program.parameters]
    args = (params[0], "forward", tuple(params[1:]), str(kind))
    call = builder.emit_raw(OPS["prim::CallMethod"], args, (kind,))
    program.graph = builder.graph([call.output])
    return program
