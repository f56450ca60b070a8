"""ScriptModule: a Module whose methods are compiled. It has the parameters, buffers and submodules of any Module."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import weft.nn
from weft.jit.annotations import written
from weft.jit.errors import CompileError
from weft.jit.frontend.attributes import is_weft_own, type_of_attribute
from weft.jit.frontend.classes.script_classes import SETTER
from weft.jit.frontend.compile import compile_python, names_in, names_of
from weft.jit.frontend.definitions import compile_definition
from weft.jit.frontend.module_hooks import has_hooks
from weft.jit.frontend.objects import OBJECTS, ModuleLinker, compile_call_of, compile_method
from weft.jit.functions import Scripted, run
from weft.jit.graph import Graph
from weft.jit.marks import Attribute
from weft.jit.program import MISSING, Program, accepted
from weft.jit.recorders import recording
from weft.jit.source import text_source
from weft.nn.modules.module import Module
from weft.support.errors import ArgumentError, ParseError
from weft.types.tensor_type import class_of


class ScriptMethod(Scripted):
    """A compiled method with its Module."""

    def __init__(self, owner: Any, program: Program) -> None:
        self.owner, self.__weft_program__ = owner, program
        self.__name__ = program.name.rpartition(".")[2]
        self.__doc__ = program.document

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = recording()
        if recorder is not None:
            return recorder.scripted_method(self, args, kwargs)
        return run(self.__weft_program__, (self.owner, *args), kwargs)

    @property
    def schema(self) -> str:
        """`forward(Net self, Tensor x) -> Tensor`."""
        return self.__weft_program__.schema()

    def __repr__(self) -> str:
        return f"<weft.jit.ScriptMethod {self.schema}>"


    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptMethod:
        return ScriptMethod(copy.deepcopy(self.owner, memo), self.__weft_program__)


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
        made = super().__call__(*args, **kwargs)
        made._compile_stubs()
        return made


class ScriptModule(Module, metaclass=_Compiling):
    """A Module with compiled methods: those marked @script_method, and those given to `define` as text."""

    _programs: dict[str, Program]

    def __init__(self) -> None:
        super().__init__()
        self._name_it(type(self))

    def _name_it(self, cls: type) -> None:
        fields = self.__dict__
        fields["_programs"], fields["_original"] = {}, None
        fields["_script_name"] = unique_name(cls)
        OBJECTS[fields["_script_name"]] = self

    def _compile_stubs(self) -> None:
        if "_programs" not in self.__dict__:
            raise CompileError(f"{type(self).__name__}.__init__ must call super().__init__()")
        self._take_attributes()
        made: dict[int, ScriptModule] = {}
        inner = {n: m if m is None else _wrapped(m, made) for n, m in self._modules.items()}
        self._modules.update(inner)
        stubs = {n: s for c in reversed(type(self).__mro__) for n, s in vars(c).items() if isinstance(s, _Stub)}
        for name in stubs:
            self._compiled(name)

    def _take_attributes(self) -> None:
        """Each `Attribute` becomes its value; the type that it gave stays."""
        fields = self.__dict__
        given = {n: v for n, v in fields.items() if isinstance(v, Attribute)}
        fields["_given_types"] = {**fields.get("_given_types", {}), **{n: v.type for n, v in given.items()}}
        fields.update({n: v.value for n, v in given.items()})

    def _compiled(self, name: str) -> Program:
        """The program of a method, compiled if it is not yet. Raises CompileError."""
        found = self._programs.get(name)
        if name == "__call__" and found is None:
            found = compile_method(self, name, None)
        if found is None:
            raw = inspect.getattr_static(self._original_class(), name.removesuffix(SETTER))
            function: Any = raw.function if isinstance(raw, _Stub) else raw
            if isinstance(raw, property):
                function = raw.fset if name.endswith(SETTER) else raw.fget
            found = compile_method(self, name, function)
        return found

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
        raw = inspect.getattr_static(self._original_class(), name, None) if held else None
        if not isinstance(raw, property):
            return super().__getattr__(name)
        if getattr(raw.fget, "__weft_script__", None) in ("ignore", "unused"):
            return raw.fget(self)  # type: ignore[misc]
        return run(self._compiled(name), (self,), {})

    def __setattr__(self, name: str, value: Any) -> None:
        if "_script_name" not in self.__dict__ or name in OWN:
            return super().__setattr__(name, value)
        raw = inspect.getattr_static(self._original_class(), name, None)
        if isinstance(raw, property) and raw.fset is not None:
            run(self._compiled(f"{name}{SETTER}"), (self, value), {})
            return None
        kind = type_of_attribute(self, name) if name in self.__dict__ and not isinstance(value, Module) else None
        found = value if kind is None else accepted(value, kind)
        if found is MISSING:
            raise ArgumentError(
                f"attribute '{name}' of {self.original_name} is of type {written(kind)}, "  # type: ignore[arg-type]
                f"{type(value).__name__} was given"
            )
        return super().__setattr__(name, found)

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

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def define(self, source: str) -> None:
        """Compile methods from text: functions whose first parameter is the Module."""
        frame = sys._getframe(1)
        definitions, text = text_source(source)
        for definition in definitions:
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

    def _method(self, name: str) -> ScriptMethod:
        found = self.__dict__.get(name)
        if not isinstance(found, ScriptMethod):
            raise AttributeError(f"{type(self).__name__} has no compiled method {name!r}")
        return found

    @property
    def original_name(self) -> str:
        """The name of the class of the Module that was scripted."""
        return self._original_class().__name__

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the Module to a file that `weft.jit.load` reads without its source."""
        from weft.jit.files.saving import save  # files know Modules

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes that `save` would write."""
        from weft.jit.files.saving import save_to_buffer  # files know what they hold

        return save_to_buffer(self, _extra_files)


class RecursiveScriptModule(ScriptModule):
    """What `weft.jit.script` makes of a Module. Parameters and buffers are the Module's own: who trains one trains
    both.
    """

    def __init__(self, original: Module) -> None:
        Module.__init__(self)
        self._name_it(type(original))
        fields = self.__dict__
        fields["_original"] = original
        for name, value in vars(original).items():
            if (name not in OWN or name == "training") and not isinstance(value, Module):
                fields[name] = value
        self._take_attributes()
        for table in ("_parameters", "_buffers", "_non_persistent_buffers_set"):
            fields[table] = getattr(original, table)

    def _compile_stubs(self) -> None:
        """Everything that `script` compiles is compiled by it, when the submodules are there."""

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


class TopLevelTracedModule(RecursiveScriptModule):
    """What `weft.jit.trace` makes of a Module."""


class LoadedModule(ScriptModule):
    """A Module that was read from a file. It needs no source: its methods are graphs."""

    def __init__(self, name: str, original_name: str) -> None:
        Module.__init__(self)
        fields = self.__dict__
        fields["_programs"], fields["_original"], fields["_script_name"] = {}, None, name
        fields["_class_name"] = original_name

    def _compile_stubs(self) -> None:
        """There are none."""

    @property
    def original_name(self) -> str:
        return str(self.__dict__["_class_name"])

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


def restore_own(module: ScriptModule, class_name: str, held: dict[str, Any]) -> None:
    """Make the module of weft's own behind a loaded one again. Raises ParseError for a class that weft.nn does not
    have.
    """
    cls = vars(weft.nn).get(class_name)
    if not isinstance(cls, type) or not issubclass(cls, Module):
        raise ParseError(f"weft.nn has no module {class_name!r}")
    original: Module = cls.__new__(cls)
    Module.__init__(original)
    vars(original).update({n: v for n, v in held.items() if n not in STATE})
    fields = module.__dict__
    for table in ("_parameters", "_buffers", "_non_persistent_buffers_set"):
        vars(original)[table] = fields[table]
    inner = {n: None if m is None else m.__dict__.get("_original") or m for n, m in fields["_modules"].items()}
    vars(original)["_modules"] = inner
    original.training = module.training
    fields["_original"] = original
    if "forward" not in fields["_programs"]:
        fields["forward"] = ScriptMethod(module, compile_call_of(module))


def loaded_module(name: str, original_name: str) -> LoadedModule:
    """An empty Module of this type."""
    return LoadedModule(name, original_name)


STATE = frozenset(vars(Module())) | {"training"}
OWN = STATE | {"_programs", "_original", "_script_name", "_class_name", "_given_types"}
_COUNTS: dict[str, int] = {}


def unique_name(cls: type) -> str:
    """A name for the type of one object: its class's, with a number behind the first."""
    stem = "".join(c if c.isalnum() or c == "_" else "_" for c in cls.__name__)
    while True:
        count = _COUNTS[stem] = _COUNTS.get(stem, -1) + 1
        name = f"{stem}_{count}" if count else stem
        if name not in OBJECTS:  # (one that was read from a file may have it)
            return name


def default_names() -> Mapping[str, Any]:
    """What a text may use without importing it."""
    from weft.jit.functions import text_names

    return text_names()


def script_module(module: Module) -> ScriptModule:
    """The scripted form of a Module and its submodules: `forward`, what it calls, and what is marked @export."""
    made: dict[int, ScriptModule] = {}
    root = _wrapped(module, made)
    if type(module).forward is not Module.forward or "forward" in vars(module):
        _compile_forward(root, module)
        if has_hooks(root):
            root._compiled("__call__")
    for wrapper in made.values():
        for name in _exported(wrapper):
            wrapper._compiled(name)
    return root


def wrapped_module(module: Module) -> ScriptModule:
    """A Module and its submodules as scripted ones, without any method compiled."""
    return _wrapped(module, {}, TopLevelTracedModule)


def _compile_forward(root: ScriptModule, module: Module) -> None:
    try:
        root._compiled("forward")
    except CompileError:
        if not is_weft_own(type(module)):
            raise
        root.__dict__["forward"] = ScriptMethod(root, compile_call_of(root))


def _exported(wrapper: ScriptModule) -> list[str]:
    cls = wrapper._original_class()
    return [n for n in dir(cls) if getattr(inspect.getattr_static(cls, n), "__weft_script__", None) == "export"]


def _wrapped(
    module: Module, made: dict[int, ScriptModule], cls: type[RecursiveScriptModule] = RecursiveScriptModule
) -> ScriptModule:
    if isinstance(module, ScriptModule):
        return module
    found = made.get(id(module))
    if found is None:
        found = made[id(module)] = cls(module)
        inner = {n: None if m is None else _wrapped(m, made) for n, m in module._modules.items()}
        found.__dict__["_modules"] = inner
    return found


__all__ = ["RecursiveScriptModule", "ScriptMethod", "ScriptModule", "names_of", "script_method", "script_module"]
