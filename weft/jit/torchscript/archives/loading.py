"""Modules from a TorchScript archive, their methods compiled from its code."""

from __future__ import annotations

import ast
import contextlib
import enum
from collections.abc import Callable
from typing import Any

from weft.catalogue.language.tuples import class_of_tuple
from weft.interop.damage import excerpt
from weft.jit.errors import CompileError
from weft.jit.interpreter.running import run
from weft.jit.module import OWN, ScriptModule, unique_name
from weft.jit.program import Program
from weft.jit.script.annotations import class_type, enumeration_type
from weft.jit.script.frontend.classes.script_classes import Description, describe
from weft.jit.script.frontend.compile import UNDERWAY, compile_python
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.definitions import compile_definition
from weft.jit.script.frontend.objects import OBJECTS, Method, ModuleLinker
from weft.jit.script.frontend.values import Simple, SugaredValue
from weft.jit.torchscript.archives.code import Code, Definition, refuse
from weft.jit.torchscript.archives.names import meaning_of
from weft.jit.torchscript.archives.reading import Instance, Parts
from weft.jit.torchscript.files.classes import LoadedObject
from weft.jit.torchscript.files.modules import LoadedModule, loaded_module
from weft.nn.parameter import Parameter
from weft.support.errors import ParseError
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import ClassType, TupleType, Type, class_of


def load_archive(parts: Parts) -> ScriptModule:
    """The Module of an archive. Raises CompileError, with the line of the archive's code, for what weft does not have,
    and ParseError for a file that does not make sense.
    """
    loader = _Loader(parts)
    root = loader.value(parts.root)
    if not isinstance(root, ScriptModule):
        raise ParseError("weft.jit.load: the archive holds no Module")
    loader.compile_all(root)
    return root


class _Loader:
    """Makes the objects of one archive, each once, and compiles what their classes define."""

    def __init__(self, parts: Parts) -> None:
        self.constants, self.version = parts.constants, parts.version
        self.code = Code(parts.code, parts.constants, self._type_named)
        self._objects: dict[int, Any] = {}
        self._parameters: dict[int, Parameter] = {}
        self._definitions: dict[str, Definition] = {}  # of Modules, by the names of their types
        self._classes: dict[str, Description] = {}
        self._enumerations: dict[str, Any] = {}
        self._functions: dict[str, Program] = {}
        self._prepared: dict[tuple[str, str], ast.FunctionDef] = {}

    # ---- what names mean (names.Definitions)
    def definition(self, name: str) -> Definition | None:
        """The class or function of a full name."""
        return self.code.find(name)

    def function(self, definition: Definition) -> Program:
        """The program of a function."""
        program = self._functions.get(definition.name)
        if program is None:
            program = Program(_short(definition.name))
            with _underway(definition.name, definition.own_name):
                self._compile(program, definition, definition.own_name, None)
            self._functions[definition.name] = program
        return program

    def class_of(self, definition: Definition) -> Description:
        """A class whose objects programs make. Its methods are compiled when they are called."""
        owner = self._classes.get(definition.name)
        if owner is None:
            space, _, own = definition.name.rpartition(".")
            cls = type(own, (LoadedObject,), {"__module__": space, "__qualname__": own})
            self._classes[definition.name] = owner = describe(cls, {})
            for name in definition.methods():
                setattr(cls, name, _method(name, owner))
            owner.attributes.update(
                {n: self.code.type_of(t, definition.source) for n, t in definition.attributes().items()}
            )
        return owner

    def named_tuple(self, definition: Definition) -> TupleType:
        """The type of a class of named tuples."""
        fields = {n: self.code.type_of(t, definition.source) for n, t in definition.attributes().items()}
        return tt.named_tuple_of(definition.own_name, fields)

    def enumeration(self, definition: Definition) -> Any:
        """A class of enumerated constants."""
        if definition.name not in self._enumerations:
            space, _, own = definition.name.rpartition(".")
            make: Any = enum.Enum
            self._enumerations[definition.name] = make(own, list(definition.constants().items()), module=space)
        return self._enumerations[definition.name]

    def _type_named(self, name: str) -> Type:
        definition = self.code.find(name)
        if definition is None:
            refuse(f"the archive's code names {name}, which it does not define")
        if definition.kind == "NamedTuple":
            return self.named_tuple(definition)
        if definition.kind == "Enum":
            return enumeration_type(self.enumeration(definition))
        if definition.kind == "object":
            return class_type(self.class_of(definition).cls)
        refuse(
            f"{name} is a {definition.kind}; weft reads archives that pass tensors, numbers, containers and objects "
            "of plain classes between functions"
        )

    # ---- objects
    def value(self, stored: Any) -> Any:
        """A value of the archive's pickle with its objects."""
        if isinstance(stored, Instance):
            if id(stored) not in self._objects:
                self._object(stored)
            return self._objects[id(stored)]
        if isinstance(stored, list):
            return [self.value(v) for v in stored]
        if isinstance(stored, tuple):
            return tuple(self.value(v) for v in stored)
        if isinstance(stored, dict):
            return type(stored)((k, self.value(v)) for k, v in stored.items())
        return stored

    def _object(self, stored: Instance) -> None:
        definition = self.code.find(stored.name)
        if definition is None:
            if stored.name.startswith("__torch__.torch.classes."):
                refuse(
                    f"the archive holds a {stored.name.removeprefix('__torch__.')}, a class of PyTorch's own C++, "
                    "such as the weights of a quantized layer; save the model without quantization"
                )
            raise ParseError(f"weft.jit.load: the archive has no definition of {excerpt(stored.name)}")
        if definition.kind == "Module":
            return self._module(stored, definition)
        if definition.kind == "Enum":
            self._objects[id(stored)] = self.enumeration(definition)(*stored.args)
        elif definition.kind == "NamedTuple":
            self._objects[id(stored)] = class_of_tuple(self.named_tuple(definition))(map(self.value, stored.args))
        elif definition.kind == "object":
            cls = self.class_of(definition).cls
            instance: Any = object.__new__(cls)
            self._objects[id(stored)] = instance
            for name, held in _state(stored).items():
                setattr(instance, name, self.value(held))
        else:
            raise ParseError(f"weft.jit.load: {excerpt(stored.name)} is no class of objects")
        return None

    def _module(self, stored: Instance, definition: Definition) -> None:
        module = loaded_module(unique_name(definition.own_name), definition.own_name)
        self._objects[id(stored)] = module
        fields = module.__dict__
        types = fields["_given_types"] = {}
        self._definitions[fields["_script_name"]] = definition
        if "__setstate__" in definition.methods():
            refuse(
                f"{definition.name} makes its state anew when it is loaded (__setstate__), as quantized layers do; "
                "save the model without quantization"
            )
        constants, written = definition.constants(), definition.attributes()
        parameters, buffers = constants.get("__parameters__", ()), constants.get("__buffers__", ())
        plain = {n: v for n, v in constants.items() if n in written}  # (Final attributes stand in the class)
        for name, held in {**plain, **_state(stored)}.items():
            if name == "training":
                module.training = bool(held)
            elif name in parameters:
                fields["_parameters"][name] = None if held is None else self._parameter(held)
            elif name in buffers:
                fields["_buffers"][name] = held
            elif isinstance(held, Instance) and self._is_module(held):
                fields["_modules"][name] = self.value(held)
            elif name not in OWN:
                fields[name] = self.value(held)
                if name in written:
                    types[name] = self.code.type_of(written[name], definition.source)

    def _is_module(self, stored: Instance) -> bool:
        definition = self.code.find(stored.name)
        return definition is None or definition.kind == "Module"

    def _parameter(self, tensor: Any) -> Parameter:
        if not isinstance(tensor, Tensor):
            raise ParseError("weft.jit.load: a parameter of the archive is no tensor")
        if id(tensor) not in self._parameters:
            self._parameters[id(tensor)] = Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
        return self._parameters[id(tensor)]

    # ---- programs
    def compile_all(self, root: ScriptModule) -> None:
        """Compile every method. What of it weft does not have raises when it is called; in `forward` of the root, at
        once.
        """
        for module in self._objects.values():
            if isinstance(module, LoadedModule):
                for name in self.methods_of(module):
                    try:
                        self.method(module, name)
                    except CompileError as problem:
                        if module is root and name == "forward":
                            raise
                        module.__dict__[name] = _raising(str(problem))
        for owner in self._classes.values():
            for name in self._definition_of_class(owner).methods():
                with contextlib.suppress(CompileError):  # raised by the program that calls it
                    self.method_of_class(owner, name)

    def methods_of(self, module: Any) -> dict[str, ast.FunctionDef]:
        """The methods of a Module of this archive; none for others."""
        definition = self._definitions.get(module.__dict__.get("_script_name", ""))
        return {} if definition is None else definition.methods()

    def method(self, module: Any, name: str) -> Program:
        """The program of a Module's method, compiled when first asked for."""
        program = module._programs.get(name)
        if program is None:
            type_name = module.__dict__["_script_name"]
            program = Program(f"{type_name}.{name}")
            with _underway((id(module), name), name):
                self._compile(program, self._definitions[type_name], name, class_of(type_name))
            module._add(name, program)
        return program  # type: ignore[no-any-return]

    def method_of_class(self, owner: Description, name: str) -> Program:
        """The program of a method of a plain class, compiled when first asked for."""
        program = owner.programs.get(name)
        if program is None:
            program = Program(f"{owner.name}.{name}")
            with _underway((owner, name), name):
                self._compile(program, self._definition_of_class(owner), name, owner.type)
            owner.programs[name] = program
        return program

    def _definition_of_class(self, owner: Description) -> Definition:
        definition = self.code.find(f"{owner.cls.__module__}.{owner.cls.__qualname__}")
        assert definition is not None
        return definition

    def _compile(self, program: Program, definition: Definition, name: str, self_type: Type | None) -> None:
        key = definition.name, name
        if key not in self._prepared:
            syntax = definition.syntax if isinstance(definition.syntax, ast.FunctionDef) else definition.methods()[name]
            self._prepared[key] = self.code.prepared(syntax, definition.source)
        compile_definition(self._prepared[key], definition.source, _ArchiveLinker(program, self), None, self_type)

    def bound(self, name: str) -> tuple[Any] | None:
        """What a name that the code was prepared with stands for."""
        return (self.code.bound[name],) if name in self.code.bound else None


class _ArchiveLinker(ModuleLinker):
    """Finds what a function of an archive refers to: nothing outside of the archive but operators."""

    def __init__(self, program: Program, loader: _Loader) -> None:
        super().__init__(program, loader.bound, compile_python)
        self.loader = loader

    def resolve(self, ctx: Context, name: str, node: ast.AST) -> SugaredValue | None:
        return meaning_of(name, self.loader)

    def member(self, ctx: Context, node: ast.AST, value: Simple, name: str) -> SugaredValue:
        module = OBJECTS.get(value.type.name) if isinstance(value.type, ClassType) else None
        if module is not None and name in self.loader.methods_of(module):
            _called(ctx, node, name, lambda: self.loader.method(module, name))
            return Method(module, value, name)
        return super().member(ctx, node, value, name)

    def method_of_class(self, ctx: Context, node: ast.AST, owner: Description, name: str) -> Program:
        return _called(ctx, node, name, lambda: self.loader.method_of_class(owner, name))

    def local_function(self, ctx: Context, definition: ast.FunctionDef) -> SugaredValue:
        ctx.fail(definition, "functions within functions, as torch.jit.fork writes them, are not read from archives")


def _called(ctx: Context, node: ast.AST, name: str, compiled: Callable[[], Program]) -> Program:
    """What `compiled` gives; an error shows the call, too."""
    try:
        return compiled()
    except CompileError as error:
        raise CompileError(f"{error}\n'{name}' is called here:\n{ctx.source.shown(node)}") from None


@contextlib.contextmanager
def _underway(key: Any, name: str) -> Any:
    """While a function is compiled. Raises CompileError where it is already: it calls itself."""
    if key in UNDERWAY:
        refuse(f"'{name}' is called recursively, which programs cannot do")
    UNDERWAY.append(key)
    try:
        yield
    finally:
        UNDERWAY.pop()


def _state(stored: Instance) -> dict[str, Any]:
    if not isinstance(stored.state, dict):
        raise ParseError(f"weft.jit.load: an object of {excerpt(stored.name)} has no state")
    return stored.state


def _short(name: str) -> str:
    return ".".join(p for p in name.split(".") if p != "__torch__" and not p.startswith("___torch_mangle"))


def _method(name: str, owner: Description) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(owner.programs[name], (self, *args), kwargs)

    method.__name__ = name
    return method


def _raising(problem: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise CompileError(problem)

    return refused
