"""Places that hold a value: a global, a closure cell, an attribute, a class attribute, an item.
Each can be read, written and put in source."""

from __future__ import annotations

import operator
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import CellType, WrapperDescriptorType
from typing import Any, Final

from weft.guards.asked import is_from_c, solid_class
from weft.guards.values import MISSING

Key = tuple[str, int, Any]
Bind = Callable[[object], str]  # gives an object a name in the generated source
GONE: Final = (AttributeError, KeyError, IndexError, ValueError, TypeError, ReferenceError)


class Slot:
    """One place. `holder` is the object that has it, `name` which of its places, `text` how the user's source would
    say it."""

    __slots__ = ("holder", "name", "text")
    kind = ""

    def __init__(self, holder: Any, name: Any, text: str) -> None:
        self.holder, self.name, self.text = holder, name, text

    @property
    def stem(self) -> str:
        """The text on which a longer path builds: `net` for the global or closure cell of that name."""
        return self.text

    @property
    def key(self) -> Key:
        """Equal for the same place while the holder lives."""
        return (self.kind, id(self.holder), self.name)

    def get(self) -> Any:
        """The value there now, or MISSING."""
        try:
            return self.load()
        except GONE:
            return MISSING

    def put(self, value: Any) -> None:
        """Write the value, or remove the name for MISSING, without running the user's __setattr__."""
        if value is MISSING:
            self.remove()
        else:
            self.store(value)

    def load(self) -> Any:
        """The value there now; an error of GONE if there is none."""
        raise NotImplementedError

    def store(self, value: Any) -> None:
        """Write the value."""
        raise NotImplementedError

    def remove(self) -> None:
        """Remove the name."""
        raise NotImplementedError

    def source(self, bind: Bind) -> str:
        """An expression that loads the value."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.text}>"


class ItemSlot(Slot):
    """An item of a dict or list."""

    __slots__ = ()
    kind = "item"

    def load(self) -> Any:
        if adds_when_read(self.holder):
            return dict.get(self.holder, self.name, MISSING)
        return _of_python(self.holder, "__getitem__")(self.holder, self.name)

    def store(self, value: Any) -> None:
        _of_python(self.holder, "__setitem__")(self.holder, self.name, value)

    def remove(self) -> None:
        if self.get() is not MISSING:
            _of_python(self.holder, "__delitem__")(self.holder, self.name)

    def source(self, bind: Bind) -> str:
        if adds_when_read(self.holder):
            return f"{bind(dict.get)}({bind(self.holder)}, {bind(self.name)}, {bind(MISSING)})"
        if _of_python(self.holder, "__getitem__") is not operator.getitem:
            return f"{bind(_of_python(self.holder, '__getitem__'))}({bind(self.holder)}, {self._key(bind)})"
        return f"{bind(self.holder)}[{self._key(bind)}]"

    def _key(self, bind: Bind) -> str:
        return repr(self.name) if type(self.name) in (int, str) else bind(self.name)

    def absent_source(self, bind: Bind) -> str:
        """An expression that is true while nothing is there: no key of a mapping, no place of a list."""
        if not isinstance(self.holder, Sequence):
            return f"{self._key(bind)} not in {bind(self.holder)}"
        least = self.name + 1 if self.name >= 0 else -self.name
        return f"{bind(len)}({bind(self.holder)}) < {least}"


_OPERATORS: Final = {
    "__getitem__": operator.getitem, "__setitem__": operator.setitem, "__delitem__": operator.delitem,
}


def _of_python(container: Any, name: str) -> Any:
    """The operator for an item of a container; for a class with a method of its own, that of Python's class behind it,
    which has the item."""
    cls = type(container)
    if cls is dict or cls is list or not issubclass(cls, (dict, list, deque)):
        return _OPERATORS[name]
    owner = class_lookup(cls, name)[0]
    return _OPERATORS[name] if owner is None or is_from_c(owner) else getattr(solid_class(cls), name)


class GlobalSlot(ItemSlot):
    """A module's global: an item of its dict."""

    __slots__ = ()

    @property
    def stem(self) -> str:
        return self.text.removeprefix("global ")


class CellSlot(Slot):
    """The content of a closure cell; `name` is the variable's."""

    __slots__ = ()
    kind = "cell"
    holder: CellType

    @property
    def stem(self) -> str:
        return str(self.name)

    def load(self) -> Any:
        return self.holder.cell_contents

    def store(self, value: Any) -> None:
        self.holder.cell_contents = value

    def remove(self) -> None:
        del self.holder.cell_contents

    def source(self, bind: Bind) -> str:
        return f"{bind(self.holder)}.cell_contents"


class AttributeSlot(Slot):
    """An attribute that the instance itself holds, in its __dict__ or in a slot."""

    __slots__ = ()
    kind = "attribute"

    def load(self) -> Any:
        return reader_of(type(self.holder))(self.holder, self.name)

    def get(self) -> Any:
        held = instance_dict(self.holder)
        if self.name in held:
            return held[self.name]
        return super().get() if is_slot(type(self.holder), self.name) else MISSING

    def store(self, value: Any) -> None:
        _in_c(self.holder, "__setattr__")(self.holder, self.name, value)

    def remove(self) -> None:
        if self.get() is not MISSING:
            _in_c(self.holder, "__delattr__")(self.holder, self.name)

    def source(self, bind: Bind) -> str:
        if class_lookup(type(self.holder), "__getattribute__")[0] is not object or not self.name.isidentifier():
            return f"{bind(reader_of(type(self.holder)))}({bind(self.holder)}, {self.name!r})"
        return f"{bind(self.holder)}.{self.name}"


def _in_c(holder: Any, name: str) -> Any:
    """The method of an object that is not written in Python: object's, or that of a class written in C."""
    methods = [cls.__dict__.get(name) for cls in type(holder).__mro__]
    return next(method for method in methods if type(method) is WrapperDescriptorType)


class HiddenSlot(AttributeSlot):
    """What Python itself keeps of an object: its class, its `__dict__`, a function's defaults."""

    __slots__ = ()
    kind = "hidden"
    NAMES: Final = frozenset({"__class__", "__dict__", "__defaults__", "__kwdefaults__", "__code__"})

    def get(self) -> Any:
        return Slot.get(self)


class WeakAttributeSlot(AttributeSlot):
    """An attribute of an object that only a weak reference leads to: `holder` is the reference, so that the guard
    keeps nothing alive."""

    __slots__ = ()

    @property
    def key(self) -> Key:
        return (self.kind, id(self.holder()), self.name)

    def _behind(self) -> AttributeSlot:
        return AttributeSlot(self.holder(), self.name, self.text)

    def load(self) -> Any:
        return self._behind().load()

    def get(self) -> Any:
        return self._behind().get()

    def store(self, value: Any) -> None:
        self._behind().store(value)

    def remove(self) -> None:
        self._behind().remove()

    def source(self, bind: Bind) -> str:
        return f"{bind(object.__getattribute__)}({bind(self.holder)}(), {self.name!r})"


class ContextSlot(Slot):
    """The value of a contextvars.ContextVar in the current context."""

    __slots__ = ()
    kind = "context"

    def load(self) -> Any:
        return self.holder.get(MISSING)

    def store(self, value: Any) -> None:
        self.holder.set(value)

    def remove(self) -> None:
        raise AttributeError("a context variable keeps a value once it has one")

    def source(self, bind: Bind) -> str:
        return f"{bind(self.holder)}.get({bind(MISSING)})"


class ClassSlot(Slot):
    """An attribute of a class, held by exactly this class."""

    __slots__ = ()
    kind = "class"

    def load(self) -> Any:
        return self.holder.__dict__[self.name]

    def store(self, value: Any) -> None:
        type.__setattr__(self.holder, self.name, value)

    def remove(self) -> None:
        type.__delattr__(self.holder, self.name)

    def source(self, bind: Bind) -> str:
        return f"{bind(self.holder)}.__dict__[{self.name!r}]"


class ContentSlot(Slot):
    """All that a container holds, as a list (of a list, deque or set) or a dict."""

    __slots__ = ()
    kind = "content"

    def load(self) -> Any:
        return dict(self.holder) if isinstance(self.holder, dict) else list(self.holder)

    def store(self, value: Any) -> None:
        if isinstance(self.holder, list):
            self.holder[:] = value
            return
        if isinstance(self.holder, set):  # what stays keeps its place, by which loops go
            kept = set(map(id, value))
            self.holder.difference_update([member for member in self.holder if id(member) not in kept])
            self.holder.update(value)
            return
        self.holder.clear()
        if isinstance(self.holder, deque):
            self.holder.extend(value)
        else:
            self.holder.update(value)


class EndSlot(ContentSlot):
    """The end of a list or deque: what is stored there is added."""

    __slots__ = ()
    kind = "end"

    def load(self) -> Any:
        return []

    def store(self, value: Any) -> None:
        self.holder.extend(value)


def counted(slot: Slot) -> Slot:
    """The place of an item that is counted from the end of a list, counted from its start."""
    if type(slot) is ItemSlot and isinstance(slot.holder, (list, deque)) and type(slot.name) is int and slot.name < 0:
        return ItemSlot(slot.holder, slot.name + len(slot.holder), slot.text)
    return slot


def adds_when_read(container: Any) -> bool:
    """Whether a container may add an item that is read and is not there: a defaultdict."""
    kind = type(container)  # (a dead proxy is asked nothing)
    return issubclass(kind, dict) and hasattr(kind, "__missing__")


_LOCAL: Final = threading.local
NOTHING: Final[dict[str, Any]] = {}


def reader_of(cls: type) -> Callable[[Any, str], Any]:
    """Attribute lookup without the user's code: object's, or threading.local's, which looks into the thread's
    own dict."""
    return _LOCAL.__getattribute__ if issubclass(cls, _LOCAL) else object.__getattribute__


def instance_dict(obj: object) -> dict[str, Any]:
    """The object's own attributes; an empty dict for one that has none."""
    try:
        attributes = reader_of(type(obj))(obj, "__dict__")
    except AttributeError:
        return NOTHING
    return attributes if isinstance(attributes, dict) else NOTHING


def class_lookup(cls: type, name: str) -> tuple[type | None, Any]:
    """(owner, raw value) of a class attribute by the method resolution order, or (None, MISSING). Runs no user code."""
    for owner in cls.__mro__:
        if name in owner.__dict__:
            return owner, owner.__dict__[name]
    return None, MISSING


def is_slot(cls: type, name: str) -> bool:
    """Whether the class declares `name` in __slots__."""
    return type(class_lookup(cls, name)[1]).__name__ == "member_descriptor"
