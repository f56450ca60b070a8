"""Classes and enumerations in files: names, types of attributes and the programs of methods; no code of Python's."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.jit.interpreter.running import run
from weft.jit.program import Program
from weft.jit.script.annotations import CLASSES, ENUMERATIONS, INTERFACES, enumeration_type
from weft.jit.script.frontend.classes.interfaces import methods_of
from weft.jit.script.frontend.classes.script_classes import SETTER, Description, describe, description_of, is_described
from weft.jit.script.frontend.compile import method_of_class
from weft.support.errors import ArgumentError, ParseError
from weft.types.parse import parse_type
from weft.types.tensor_type import ClassType

_TYPE = re.compile(r"Class\(([\w.]+)\)")


# ---- writing
class ClassWriter:
    """Numbers classes, each once. `program` gives the number of a program."""

    def __init__(self, program: Callable[[Program], int]) -> None:
        self.stored: list[Any] = []
        self._program = program
        self._seen: dict[type, int] = {}

    def named(self, value: Any) -> Any:
        """A class, or a member of an enumeration, that a graph refers to. Raises ArgumentError for other objects."""
        if isinstance(value, enum.Enum):
            return ["member", self._number(type(value)), value.name]
        if isinstance(value, type):
            return ["class", self._number(value)]
        raise ArgumentError(f"weft.jit.save: a file cannot hold a {type(value).__name__}")

    def note_types(self, text: str) -> None:
        """Store the classes whose types a graph speaks of, though it may make none of their objects."""
        for name in _TYPE.findall(text):
            cls = CLASSES.get(name) or ENUMERATIONS.get(name)
            if cls is not None:
                self._number(cls)

    def holds_objects(self, value: Any) -> bool:
        """Whether a value is, or has within, an object of a class."""
        if isinstance(value, (list, tuple)):
            return any(map(self.holds_objects, value))
        if isinstance(value, dict):
            return any(map(self.holds_objects, value.values()))
        return isinstance(value, enum.Enum) or is_described(type(value))

    def value(self, value: Any) -> Any:
        """A value, its objects as their classes and attributes."""
        if isinstance(value, enum.Enum):
            return self.named(value)
        if is_described(type(value)):
            owner = _compiled(type(value))
            return ["object", self._number(owner.cls), {n: self.value(getattr(value, n)) for n in owner.attributes}]
        if isinstance(value, list):
            return ["list", [self.value(v) for v in value]]
        if isinstance(value, tuple):
            return ["tuple", [self.value(v) for v in value]]
        if isinstance(value, dict):
            return ["dict", [[k, self.value(v)] for k, v in value.items()]]
        return ["plain", value]

    def _number(self, cls: type) -> int:
        number = self._seen.get(cls)
        if number is None:
            number = self._seen[cls] = len(self.stored)
            self.stored.append(None)
            self.stored[number] = _enumeration(cls) if issubclass(cls, enum.Enum) else self._class(_compiled(cls))
        return number

    def _class(self, owner: Description) -> Any:
        self.note_types(" ".join(map(str, owner.attributes.values())))
        return {
            "type": owner.name, "name": owner.cls.__name__,
            "attributes": {n: str(kind) for n, kind in owner.attributes.items()},
            "methods": {n: self._program(program) for n, program in owner.programs.items()},
            "interface": sorted(methods_of(owner.cls)) if owner.cls in INTERFACES else [],
            "properties": [n for n in owner.programs if isinstance(owner.raw(n), property)],
        }  # fmt: skip


def _compiled(cls: type) -> Description:
    owner = description_of(cls)
    if cls not in INTERFACES and owner.has_method("__init__") and "__init__" not in owner.programs:
        method_of_class(owner, "__init__")  # which knows the attributes
    return owner


def _enumeration(cls: type[enum.Enum]) -> Any:
    return {"type": _name_of(cls), "name": cls.__name__, "members": [[m.name, m.value] for m in cls]}


def _name_of(cls: type[enum.Enum]) -> str:
    kind = enumeration_type(cls)
    assert isinstance(kind, ClassType)
    return kind.name


# ---- reading
class ClassReader:
    """Makes classes again. `program` gives a program by its number."""

    def __init__(self, stored: Sequence[Any], program: Callable[[int], Program]) -> None:
        self.stored, self._program = stored, program
        self._made: dict[int, type] = {}

    def members(self) -> Mapping[str, set[str]]:
        """What the objects of each type have. Raises ParseError for names that are none of a class's own."""
        members: dict[str, set[str]] = {}
        for one in self.stored:
            names = {"name", "value"} if "members" in one else set(one["attributes"])
            for name in (*names, *one.get("methods", ()), one["name"]):
                if not name.isidentifier():
                    raise ParseError(f"{name!r} is no name of a class or a member")
            if any(n.startswith("__") for n in names):
                raise ParseError(f"the class {one['name']} has attributes that are Python's")
            members[one["type"]] = names | set(one.get("interface", ()))
        return members

    def named(self, stored: Any) -> Any:
        """What a graph refers to."""
        cls = self._class(stored[1])
        return cls[stored[2]] if stored[0] == "member" else cls

    def value(self, stored: Any) -> Any:
        """A value with its objects."""
        kind, content = stored[:2]
        if kind == "plain":
            return content
        if kind in ("list", "tuple"):
            parts = [self.value(v) for v in content]
            return parts if kind == "list" else tuple(parts)
        if kind == "dict":
            return {k: self.value(v) for k, v in content}
        if kind == "member":
            return self.named(stored)
        cls = self._class(content)
        instance = cls.__new__(cls)
        for name, held in stored[2].items():
            setattr(instance, name, self.value(held))
        return instance

    def _class(self, number: int) -> Any:
        loaded = self._made.get(number)
        if loaded is None:
            stored = self.stored[number]
            if "members" in stored:
                loaded = self._made[number] = _loaded_enumeration(stored)
            else:
                loaded = self._made[number] = type(stored["name"], (LoadedObject,), {"__weft_type__": stored["type"]})
                self._fill(loaded, stored)
        return loaded

    def _fill(self, cls: type, stored: Any) -> None:
        name = stored["type"]
        for method, number in stored["methods"].items():
            setattr(cls, method, _method(method, self._program, number))
        for method in stored["interface"]:
            setattr(cls, method, _asked_for)
            INTERFACES.add(cls)
        for read in stored["properties"]:
            setattr(cls, read, property(getattr(cls, read), getattr(cls, f"{read}{SETTER}", None)))
        CLASSES.setdefault(name, cls)
        owner = describe(cls, {n: parse_type(kind) for n, kind in stored["attributes"].items()})
        owner.programs.update({n: self._program(number) for n, number in stored["methods"].items()})


def _asked_for(self: Any) -> None:
    """A method that an interface asks for."""


class LoadedObject:
    """An object of a class that was read from a file."""

    __weft_type__ = ""

    def __repr__(self) -> str:
        held = ", ".join(f"{n}={v!r}" for n, v in vars(self).items())
        return f"{type(self).__name__}({held})"


def _method(name: str, program: Callable[[int], Program], number: int) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(program(number), (self, *args), kwargs)

    method.__name__ = name
    return method


def _loaded_enumeration(stored: Any) -> Any:
    """The enumeration of this process that has the name and members, or a new one."""
    name, members = stored["type"], [(n, v) for n, v in stored["members"]]
    existing = ENUMERATIONS.get(name)
    if existing is not None and [(m.name, m.value) for m in existing] == members:
        return existing
    make: Any = enum.Enum
    enumeration = make(stored["name"], members)
    enumeration.__weft_type__ = name
    ENUMERATIONS.setdefault(name, enumeration)
    return enumeration
