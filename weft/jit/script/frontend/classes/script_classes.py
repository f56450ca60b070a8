"""Classes of the user's in programs: objects are made, their attributes read and written, their methods compiled when
they are called.

The attributes of a class are what its `__init__` assigns, with the types that they get there, and what its body
annotates.
"""

from __future__ import annotations

import ast
import copy
import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from weft.jit.errors import CompileError
from weft.jit.program import Program
from weft.jit.script.annotations import CLASSES, UnknownType, class_type, type_of_annotation
from weft.jit.script.frontend.classes.dataclass_methods import hints_of_class, is_generated, text_of_method
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import PythonFunction, Scripted, unused_result
from weft.jit.script.frontend.values import Simple, SugaredValue
from weft.jit.script.source import Source, function_source, text_source
from weft.types.tensor_type import ClassType, Type

SETTER = "__setter"  # behind the name of a property: what writes it
Kwargs = dict[str, SugaredValue]


class Description:
    """What programs know of a class."""

    def __init__(self, cls: type) -> None:
        self.cls, self.type = cls, class_type(cls)
        self.programs: dict[str, Program] = {}
        self.inherited: dict[str, Any] = {}  # methods of classes behind it that its own methods call, by their keys
        self.attributes: dict[str, Type] = dict(_annotated(cls))

    @property
    def name(self) -> str:
        """The name of the type."""
        assert isinstance(self.type, ClassType)
        return self.type.name

    def raw(self, name: str) -> Any:
        """What the class, or one that it is derived from, has under a name; None for what only `object` has."""
        if name in self.inherited:
            return self.inherited[name]
        attribute = inspect.getattr_static(self.cls, name, None)
        return None if attribute is inspect.getattr_static(object, name, None) else attribute

    def has_method(self, name: str) -> bool:
        """Whether the class defines a method, or a property."""
        return isinstance(self.raw(name), property) or inspect.isfunction(self.raw(name))

    def definition(self, name: str) -> tuple[ast.FunctionDef, Source, Any, Mapping[str, Any]]:
        """A method's syntax, the function with its defaults, and names that mean something in it."""
        raw = self.raw(name.removesuffix(SETTER))
        if isinstance(raw, classmethod):
            return self._of_class(raw.__func__)
        if isinstance(raw, property):
            raw = raw.fset if name.endswith(SETTER) else raw.fget
        if is_generated(self.cls, raw):
            text, names = text_of_method(self.cls, name)
            definitions, source = text_source(text, f"<{self.cls.__name__}>")
            return definitions[0], source, None, names
        return (*function_source(raw), raw, {self.cls.__name__: self.cls})

    def _of_class(self, function: Any) -> tuple[ast.FunctionDef, Source, Any, Mapping[str, Any]]:
        """A class method: its first parameter is a name of the class."""
        definition, source = function_source(function)
        first, *others = definition.args.args
        short = copy.copy(definition)
        short.args = copy.copy(definition.args)
        short.args.args = others
        return short, source, function, {self.cls.__name__: self.cls, first.arg: self.cls}

    def is_left_out(self, name: str) -> bool:
        """Whether a method or property is marked as one that programs do not use."""
        raw = self.raw(name)
        function = raw.fget if isinstance(raw, property) else raw
        listed = getattr(self.cls, "__jit_unused_properties__", ())
        return getattr(function, "__weft_script__", None) == "unused" or (isinstance(raw, property) and name in listed)

    def methods(self) -> list[str]:
        """Everything that `script` compiles."""
        names = []
        for name, raw in vars(self.cls).items():
            if self.is_left_out(name):
                continue
            if isinstance(raw, property):
                names += [name] if raw.fset is None else [name, f"{name}{SETTER}"]
            elif inspect.isfunction(raw) and (name == "__init__" or not is_generated(self.cls, raw)):
                names.append(name)
        return sorted(names, key=lambda n: n != "__init__")


def _annotated(cls: type) -> Mapping[str, Type]:
    """The attributes that a class's body annotates."""
    attributes: dict[str, Type] = {}
    for name, written in _hints(cls).items():
        if typing.get_origin(written) in (Final, typing.ClassVar) or written is Final:
            continue
        try:
            attributes[name] = type_of_annotation(written)
        except UnknownType:
            continue
    return attributes


def _hints(cls: type) -> Mapping[str, Any]:
    try:
        return hints_of_class(cls)
    except Exception:  # annotations of other tools, that mean nothing here
        return {}


_DESCRIPTIONS: WeakKeyDictionary[type, Description] = WeakKeyDictionary()


def description_of(cls: type) -> Description:
    """What programs know of a class, found out when first asked."""
    description = _DESCRIPTIONS.get(cls)
    if description is None:
        description = _DESCRIPTIONS[cls] = Description(cls)
    return description


def describe(cls: type, attributes: Mapping[str, Type]) -> Description:
    """Say what programs know of a class that has no source."""
    description = _DESCRIPTIONS[cls] = Description(cls)
    description.attributes.update(attributes)
    return description


def is_described(cls: type) -> bool:
    """Whether a program, or `script`, has had to do with a class."""
    return cls in _DESCRIPTIONS


def description_of_value(value: object) -> Description | None:
    """The class of a value of the graph, or None for what is no object of the user's."""
    kind = value.type if isinstance(value, Simple) else None
    cls = CLASSES.get(kind.name) if isinstance(kind, ClassType) else None
    return None if cls is None else description_of(cls)


# ---- objects
def make_object(
    ctx: Context, node: ast.AST, owner: Description, args: Sequence[SugaredValue], kwargs: Kwargs
) -> Simple:
    """`Class(*args, **kwargs)`."""
    name = ctx.program.keep(owner.cls, owner.cls.__name__)
    instance = ctx.emit(ctx.op("prim::CreateObject"), (name, str(owner.type)), node)
    instance = Simple(instance.operand, owner.type)
    if owner.has_method("__init__"):
        call_method(ctx, node, owner, instance, "__init__", args, kwargs)
    elif args or kwargs:
        ctx.fail(node, f"{owner.cls.__name__}() takes no arguments")
    return instance


def call_method(
    ctx: Context, node: ast.AST, owner: Description, value: Simple, name: str, args: Sequence[SugaredValue],
    kwargs: Kwargs,
) -> SugaredValue:
    """`value.name(*args, **kwargs)`."""
    program = ctx.program.method_of_class(ctx, node, owner, name)
    return Scripted(program).call(ctx, node, [value, *args], kwargs, 1)


class ObjectMethod(SugaredValue):
    """A method with its object."""

    kind = "method"

    def __init__(self, owner: Description, value: Simple, name: str) -> None:
        self.owner, self.value, self.name = owner, value, name

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: Kwargs, binders: int
    ) -> SugaredValue:
        return call_method(ctx, node, self.owner, self.value, self.name, args, kwargs)


class ClassMethod(SugaredValue):
    """A method of a class, which needs no object."""

    kind = "class method"

    def __init__(self, owner: Description, name: str) -> None:
        self.owner, self.name = owner, name

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: Kwargs, binders: int
    ) -> SugaredValue:
        program = ctx.program.method_of_class(ctx, node, self.owner, self.name)
        return Scripted(program).call(ctx, node, args, kwargs, 1)


def _know_attributes(ctx: Context, node: ast.AST, owner: Description) -> None:
    """An object may come in as an argument, before any `__init__` was compiled."""
    if owner.has_method("__init__") and "__init__" not in owner.programs and ctx.program.defines is not owner:
        try:
            ctx.program.method_of_class(ctx, node, owner, "__init__")
        except CompileError:
            if not owner.attributes:
                raise


def object_member(ctx: Context, node: ast.AST, value: Simple, owner: Description, name: str) -> SugaredValue:
    """`value.name`. Raises CompileError."""
    if name not in owner.attributes and owner.raw(name) is None:
        _know_attributes(ctx, node, owner)
    kind = owner.attributes.get(name)
    raw = owner.raw(name)
    if kind is not None and not isinstance(raw, property):
        return Simple(ctx.emit(ctx.op("prim::GetAttr"), (value.operand, name, str(kind)), node).operand, kind)
    if isinstance(raw, property) and owner.is_left_out(name):
        return unused_result(ctx, node, f"{owner.cls.__name__}.{name}", raw.fget)
    if isinstance(raw, property):
        return call_method(ctx, node, owner, value, name, [], {})
    if isinstance(raw, staticmethod):
        return PythonFunction(raw.__func__, f"{owner.cls.__name__}.{name}")
    if isinstance(raw, classmethod):
        return ClassMethod(owner, name)
    if owner.is_left_out(name):
        return PythonFunction(raw, f"{owner.cls.__name__}.{name}")
    if inspect.isfunction(raw):
        return ObjectMethod(owner, value, name)
    wrapped = None if raw is None else ctx.program.wrap(ctx, raw, f"{owner.cls.__name__}.{name}")
    if wrapped is None:
        ctx.fail(node, f"'{owner.cls.__name__}' has no attribute or method '{name}'; __init__ gives it its attributes")
    return wrapped  # type: ignore[no-any-return]


def set_object_member(
    ctx: Context, node: ast.AST, value: Simple, owner: Description, name: str, new_value: SugaredValue
) -> None:
    """`value.name = new_value`; in `__init__`, the attribute is defined by that. Raises CompileError."""
    raw = owner.raw(name)
    if isinstance(raw, property):
        if raw.fset is None:
            ctx.fail(node, f"property '{name}' of '{owner.cls.__name__}' has no setter")
        call_method(ctx, node, owner, value, f"{name}{SETTER}", [new_value], {})
        return
    if name not in owner.attributes:
        _know_attributes(ctx, node, owner)
    kind = owner.attributes.get(name)
    if kind is None:
        kind = _defined(ctx, node, owner, name, new_value)
    simple = ctx.stored(new_value.as_value(ctx, node, kind), kind, node, f"attribute '{name}'")
    ctx.emit(ctx.op("prim::SetAttr"), (value.operand, name, simple.operand), node, ())


def _defined(ctx: Context, node: ast.AST, owner: Description, name: str, new_value: SugaredValue) -> Type:
    if ctx.program.defines is not owner:
        ctx.fail(node, f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?")
    if ctx.scope.outer is not None:
        ctx.fail(node, f"attribute '{name}' must be defined where __init__ always comes: not within if, for or while")
    kind = owner.attributes[name] = new_value.as_value(ctx, node).type
    return kind


# ---- what operators call
def magic(
    ctx: Context, node: ast.AST, value: SugaredValue, name: str, args: Sequence[SugaredValue] = ()
) -> SugaredValue | None:
    """`value.__name__(*args)`, or None where the value is no object with such a method, and no Module whose class
    defines it anew.
    """
    if isinstance(value, Simple) and ctx.program.is_module(value):
        raw = inspect.getattr_static(ctx.program.class_of_value(ctx, node, value), name, None)
        if not inspect.isfunction(raw) or raw.__module__.partition(".")[0] == "weft":
            return None
        return ctx.program.member(ctx, node, value, name).call(ctx, node, args, {}, 1)  # type: ignore[no-any-return]
    owner = description_of_value(value)
    if owner is None or not owner.has_method(name):
        return None
    assert isinstance(value, Simple)
    return call_method(ctx, node, owner, value, name, args, {})


def magic_or_refuse(
    ctx: Context, node: ast.AST, value: SugaredValue, name: str, args: Sequence[SugaredValue] = ()
) -> SugaredValue:
    """`value.__name__(*args)`. Raises CompileError for an object without the method."""
    returned = magic(ctx, node, value, name, args)
    if returned is None:
        owner = description_of_value(value)
        assert owner is not None
        ctx.fail(node, f"'{owner.cls.__name__}' has no method '{name}', which this operation calls")
    return returned
