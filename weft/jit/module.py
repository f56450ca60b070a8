"""ScriptModule: a Module whose methods are compiled. It has the parameters, buffers and submodules of any Module."""

from __future__ import annotations

import copy
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from weft.jit.errors import CompileError
from weft.jit.functions import ScriptMethod
from weft.jit.interpreter.running import run
from weft.jit.program import MISSING, Program, accepted
from weft.jit.script.annotations import UnknownType, type_of_annotation, written
from weft.jit.script.frontend.attributes import is_constant, is_weft_own, may_stay_in_python, type_of_attribute
from weft.jit.script.frontend.classes.interfaces import interface_of
from weft.jit.script.frontend.classes.script_classes import SETTER
from weft.jit.script.frontend.compile import compile_python, names_in, names_of
from weft.jit.script.frontend.definitions import compile_definition
from weft.jit.script.frontend.objects import OBJECTS, ModuleLinker, check_module, compile_call_of, compile_method
from weft.jit.script.marks import Attribute, prepared
from weft.jit.script.source import by_use, text_source
from weft.jit.torchscript.graph import Graph
from weft.nn.modules.module import Module
from weft.support.errors import ArgumentError, StateError
from weft.types.tensor_type import class_of


class _Stub:
    """A method that waits to be compiled when its Module has been made."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        raise AttributeError(f"{self.function.__name__} is compiled when the ScriptModule's __init__ is done")


def script_method(function: Callable[..., Any]) -> Any:
    """Decorator: compile this method of a ScriptModule when one has been made."""
    return _Stub(function)


class _Compiling(type(Module)):  # type: ignore[misc]
    """Compiles the marked methods when the constructor is done."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        module = super().__call__(*args, **kwargs)
        module._compile_stubs()
        return module


class ScriptModule(Module, metaclass=_Compiling):
    """A Module with compiled methods: those marked @script_method, and those given to `define` as text."""

    _programs: dict[str, Program]

    def __init__(self) -> None:
        super().__init__()
        self._name_it(type(self))

    def _name_it(self, cls: type) -> None:
        fields = self.__dict__
        fields["_programs"], fields["_original"] = {}, None
        fields["_script_name"] = unique_name(cls.__name__)
        OBJECTS[fields["_script_name"]] = self

    def _compile_stubs(self) -> None:
        if "_programs" not in self.__dict__:
            raise CompileError(f"{type(self).__name__}.__init__ must call super().__init__()")
        self._take_attributes()
        scripted: dict[int, ScriptModule] = {}
        inner = {n: m if m is None else wrapped(m, scripted) for n, m in self._modules.items()}
        self._modules.update(inner)
        stubs = {n: s for c in reversed(type(self).__mro__) for n, s in vars(c).items() if isinstance(s, _Stub)}
        for name in stubs:
            self._compiled(name)

    def _take_attributes(self) -> None:
        """Each `Attribute` becomes its value; the type that it gave stays."""
        fields = self.__dict__
        attributes = {n: v for n, v in fields.items() if isinstance(v, Attribute)}
        fields["_given_types"] = {**fields.get("_given_types", {}), **{n: v.type for n, v in attributes.items()}}
        fields.update({n: _held_by(n, v) for n, v in attributes.items()})

    def _compiled(self, name: str) -> Program:
        """The program of a method, compiled if it is not yet. Raises CompileError."""
        program = self._programs.get(name)
        if name == "__call__" and program is None:
            program = compile_method(self, name, None)
        if program is None:
            raw = self._raw(name.removesuffix(SETTER))
            function: Any = raw.function if isinstance(raw, _Stub) else raw
            if isinstance(raw, property):
                function = raw.fset if name.endswith(SETTER) else raw.fget
            program = compile_method(self, name, function)
        return program

    def _raw(self, name: str) -> Any:
        """What the class of the Module has under a name, or the method that was put in its place; None if neither."""
        replaced = self.__dict__.get("_replaced", {})
        return replaced[name] if name in replaced else inspect.getattr_static(self._original_class(), name, None)

    def _original_class(self) -> type:
        original = self.__dict__["_original"]
        return type(self if original is None else original)

    def _add(self, name: str, program: Program) -> None:
        """A method that has been compiled."""
        self._programs[name] = program
        if not isinstance(inspect.getattr_static(self._original_class(), name, None), property):
            self.__dict__[name] = ScriptMethod(self, program)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with_hooks = self.__dict__.get("__call__")
        return super().__call__(*args, **kwargs) if with_hooks is None else with_hooks(*args, **kwargs)

    # ---- what the class of the Module offers besides methods
    def __getattr__(self, name: str) -> Any:
        held = self.__dict__.get("_script_name") is not None and name not in OWN
        raw = self._raw(name) if held else None
        if inspect.isfunction(raw) and not is_weft_own(self._original_class()):
            return types.MethodType(raw, self)  # a method that stayed in Python
        if not isinstance(raw, property):
            return super().__getattr__(name)
        if getattr(raw.fget, "__weft_script__", None) in ("ignore", "unused"):
            return raw.fget(self)  # type: ignore[misc]
        return run(self._compiled(name), (self,), {})

    def __setattr__(self, name: str, value: Any) -> None:
        if "_script_name" not in self.__dict__ or name in OWN:
            return super().__setattr__(name, value)
        if isinstance(value, Attribute):
            self.__dict__.setdefault("_given_types", {})[name] = value.type
            value = _held_by(name, value)
        self._refuse_what_is_compiled(name, value)
        raw = inspect.getattr_static(self._original_class(), name, None)
        if isinstance(raw, property) and raw.fset is not None:
            run(self._compiled(f"{name}{SETTER}"), (self, value), {})
            return None
        kind = type_of_attribute(self, name) if name in self.__dict__ and not isinstance(value, Module) else None
        converted = value if kind is None else accepted(value, kind)
        if converted is MISSING:
            raise ArgumentError(
                f"attribute '{name}' of {self.original_name} is of type {written(kind)}, "  # type: ignore[arg-type]
                f"{type(value).__name__} was given"
            )
        return super().__setattr__(name, converted)

    def _refuse_what_is_compiled(self, name: str, value: Any) -> None:
        """Raises StateError for what the programs that there are would not see."""
        if not self._programs:
            return
        if name in self._modules and not isinstance(value, ScriptModule):
            raise StateError(
                f"Cannot re-assign the submodule '{name}' of {self.original_name}: its programs call the one that was "
                "compiled; change the Module and script it again"
            )
        if name in self._modules:
            self._refuse_of_other_kind(name, value)
        if name in self.__dict__ and is_constant(self, name) and self.__dict__[name] != value:
            raise StateError(
                f"'{name}' of {self.original_name} is a constant: its programs were compiled for "
                f"{self.__dict__[name]!r}; script the Module again, or do not declare it as Final"
            )

    def _refuse_of_other_kind(self, name: str, value: ScriptModule) -> None:
        held, kind = self._modules[name], type_of_attribute(self, name)
        if interface_of(kind) is not None:
            try:
                check_module(value, kind)
            except CompileError as problem:
                raise StateError(f"'{name}' of {self.original_name}: {str(problem).partition(chr(10))[0]}") from None
        elif isinstance(held, ScriptModule) and held.original_name != value.original_name:
            raise StateError(
                f"Expected a value of type '{held.original_name}' for field '{name}', but found "
                f"'{value.original_name}'; annotate '{name}' with an interface that both have"
            )

    _assigned_by_program = Module.__setattr__

    def _of_container(self, name: str) -> Callable[..., Any]:
        method: Any = getattr(self._original_class(), name, None)
        if method is None or issubclass(self._original_class(), ScriptModule):
            raise TypeError(f"{self.original_name} is no container: it has no {name}")
        return method  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return int(self._of_container("__len__")(self))

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._of_container("__iter__")(self))

    def __contains__(self, key: Any) -> bool:
        return bool(self._of_container("__contains__")(self, key))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        return self._of_container("__getitem__")(self, index)

    def __copy__(self) -> Any:
        duplicate = type(self).__new__(type(self))
        fields = {n: v._of(duplicate) if isinstance(v, ScriptMethod) else v for n, v in self.__dict__.items()}
        duplicate.__dict__.update(fields, _programs=dict(self._programs))
        return duplicate

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        duplicate = memo[id(self)] = type(self).__new__(type(self))
        duplicate.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return duplicate

    def define(self, source: str) -> None:
        """Compile methods from text: functions whose first parameter is the Module. They can call each other."""
        frame = sys._getframe(1)
        definitions, text = text_source(source)
        for definition in by_use(definitions):
            program = Program(f"{self._script_name}.{definition.name}")
            names = names_in(frame.f_locals, frame.f_globals, default_names())
            linker = ModuleLinker(program, names, compile_python)
            compile_definition(definition, text, linker, None, class_of(self._script_name))
            self._add(definition.name, program)

    @property
    def graph(self) -> Graph:
        """The graph of `forward`."""
        return self._method("forward").graph

    @property
    def inlined_graph(self) -> Graph:
        """The graph of `forward` with the bodies of what it calls."""
        return self._method("forward").inlined_graph

    @property
    def code(self) -> str:
        """The lines of `forward`."""
        return self._method("forward").code

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The lines of `forward`, and the tensors that they call CONSTANTS."""
        return self._method("forward").code_with_constants

    def _method(self, name: str) -> ScriptMethod:
        method = self.__dict__.get(name)
        if not isinstance(method, ScriptMethod):
            raise AttributeError(f"{type(self).__name__} has no compiled method {name!r}")
        return method

    @property
    def original_name(self) -> str:
        """The name of the class of the Module that was scripted."""
        return self._original_class().__name__

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the Module to a file that `weft.jit.load` reads without its source."""
        from weft.jit.torchscript.files.saving import save  # files know Modules

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes that `save` would write."""
        from weft.jit.torchscript.files.saving import save_to_buffer  # files know what they hold

        return save_to_buffer(self, _extra_files)


def _held_by(name: str, attribute: Attribute) -> Any:
    """The value of an Attribute, as one of its type. Raises ArgumentError for a value of another."""
    try:
        kind = type_of_annotation(attribute.type)
    except UnknownType:
        return attribute.value
    converted = accepted(attribute.value, kind)
    if converted is MISSING:
        raise ArgumentError(f"attribute '{name}' is of type {written(kind)}, {attribute.value!r} was given")
    return converted


class RecursiveScriptModule(ScriptModule):
    """What `weft.jit.script` makes of a Module. Parameters and buffers are the Module's own: who trains one trains
    both.
    """

    def __init__(self, original: Module) -> None:
        Module.__init__(self)
        self._name_it(type(original))
        fields = self.__dict__
        fields["_original"] = original
        replaced = fields["_replaced"] = {}
        for name, value in vars(original).items():
            if isinstance(value, types.MethodType) and value.__self__ is original:
                replaced[name] = value.__func__
            elif (name not in OWN or name == "training") and not isinstance(value, Module):
                fields[name] = value
        self._take_attributes()
        for table in ("_parameters", "_buffers", "_non_persistent_buffers_set"):
            fields[table] = getattr(original, table)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """That of a Module which no program calls: it is compiled when Python calls it."""
        original = self.__dict__["_original"]
        if type(original).forward is Module.forward:
            return original.forward(*args, **kwargs)
        compile_forward(self, original)
        return self._method("forward")(*args, **kwargs)

    def _compile_stubs(self) -> None:
        """Everything that `script` compiles is compiled by it, when the submodules are there."""

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


class TopLevelTracedModule(RecursiveScriptModule):
    """What `weft.jit.trace` makes of a Module."""


STATE = frozenset(vars(Module())) | {"training"}
OWN = STATE | {"_programs", "_original", "_script_name", "_class_name", "_given_types", "_replaced"}
_COUNTS: dict[str, int] = {}


def unique_name(class_name: str) -> str:
    """A name for the type of one object: its class's, with a number behind the first."""
    stem = "".join(c if c.isalnum() or c == "_" else "_" for c in class_name)
    while True:
        count = _COUNTS[stem] = _COUNTS.get(stem, -1) + 1
        name = f"{stem}_{count}" if count else stem
        if name not in OBJECTS:  # (one that was read from a file may have it)
            return name


def default_names() -> Mapping[str, Any]:
    """What a text may use without importing it."""
    from weft.jit.functions import text_names

    return text_names()


def wrapped_module(module: Module) -> ScriptModule:
    """A Module and its submodules as scripted ones, without any method compiled."""
    return wrapped(module, {}, TopLevelTracedModule)


def compile_forward(root: ScriptModule, module: Module) -> None:
    """Compile `forward`; one of weft's own Modules whose Python cannot be compiled is called as it is, unless it calls
    Modules of the user's, whose Python it may be that cannot."""
    try:
        root._compiled("forward")
    except CompileError:
        takes_any = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values())
        if takes_any or not may_stay_in_python(root):
            raise
        root.__dict__["forward"] = ScriptMethod(root, compile_call_of(root))


def _refuse_unmade(module: Module) -> None:
    if "_parameters" not in vars(module):
        raise CompileError(
            f"the Module {type(module).__name__} has not been initialized; its __init__ must call super().__init__()"
        )


def wrapped(
    module: Module, scripted: dict[int, ScriptModule], cls: type[RecursiveScriptModule] = RecursiveScriptModule
) -> ScriptModule:
    """A Module and its submodules as scripted ones, without any method compiled; each once. Raises CompileError for one
    that is not made yet."""
    wrapper = scripted.get(id(module))
    if wrapper is not None:
        return wrapper
    key, module = id(module), prepared(module)
    if isinstance(module, ScriptModule):
        return module
    _refuse_unmade(module)
    wrapper = scripted[key] = cls(module)
    inner = {n: None if m is None else wrapped(m, scripted) for n, m in module._modules.items()}
    wrapper.__dict__["_modules"] = inner
    return wrapper


__all__ = ["RecursiveScriptModule", "ScriptMethod", "ScriptModule", "names_of", "script_method", "wrapped"]
