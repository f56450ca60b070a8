"""What was found on classes and modules, and what was not: methods and other descriptors, attributes of classes,
names that a lookup missed."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final

import numpy as np

from weft.guards.content_guard import KeysGuard
from weft.guards.guard import ClassGuard, OrderGuard
from weft.guards.held import CALLED
from weft.guards.kinds import CONTAINERS, Kind, Kinds, is_changeable
from weft.guards.origin import INTERNAL, USER
from weft.guards.slots import NOTHING, AttributeSlot, ClassSlot, GlobalSlot, Slot, class_lookup, instance_dict
from weft.guards.snapshots import Entry
from weft.guards.values import MISSING
from weft.support.locations import Location

DESCRIPTORS: Final = (
    FunctionType,
    classmethod,
    staticmethod,
    property,
    functools.cached_property,
    functools.partialmethod,
)
CACHE: Final = type(functools.lru_cache(len))
SPECIAL: Final = frozenset(
    str.split(
        "__bool__ __len__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __contains__ __iter__ __next__ "
        "__reversed__ __getitem__ __setitem__ __delitem__ __missing__ __call__ __enter__ __exit__ __getattr__ "
        "__getattribute__ __setattr__ __index__ __int__ __float__ __complex__ __str__ __repr__ __format__ __neg__ "
        "__pos__ __abs__ __invert__ __round__ __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ "
        "__imul__ __truediv__ __rtruediv__ __itruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ "
        "__instancecheck__ __subclasscheck__ "
        "__matmul__ __rmatmul__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __weft_function__ __array__"
    )
)  # what an operator, a statement or a builtin function may look up on the class of its operand


class ClassReads:
    """The part of Reads that knows classes."""

    kinds: Kinds
    entries: dict[Any, Any]  # the slots that were read or written, with what was there before the call

    def __init__(self) -> None:
        self.classes: dict[tuple[int, str], ClassGuard] = {}
        self.absent: dict[type, dict[str, Location]] = {}
        self.keys: dict[int, KeysGuard] = {}  # what holds attributes whose names are made at run time
        self.orders: dict[type, OrderGuard] = {}
        self._special: set[type] = set()
        self._overridden: set[type] = set()

    def entry(
        self, slot: Slot, where: Location, read: bool = True, store: Location | None = None, sure: bool = True
    ) -> Any:
        """Record a slot."""
        raise NotImplementedError

    def is_known(self, value: Any) -> bool:
        """Whether an object is older than the call for certain."""
        raise NotImplementedError

    def structure(
        self, container: Any, text: str, where: Location, module: Any = None, names: str = "", deeply: bool = True
    ) -> None:
        """Guard a container's keys and items."""
        raise NotImplementedError

    def told(self, obj: Any, name: str, path: str, where: Location) -> Any:
        """An attribute that code in C gives."""
        raise NotImplementedError

    def note(self, value: Any, text: str, where: Location, sure: bool = True) -> None:
        """A value that was read."""
        raise NotImplementedError

    def answer(
        self, ask: Callable[[], Any], holder: object, name: str, text: str, where: Location,
        quick: Callable[[], Any] | None = None,
    ) -> Any:
        """What Python says now, in answer to a question that is asked again at every call."""
        raise NotImplementedError

    def random(self, generator: Any, text: str, where: Location) -> None:
        """Remember where a random generator stands."""
        raise NotImplementedError

    def asked_state(self, generator: Any, name: str, path: str, where: Location) -> None:
        """A name of a random generator."""
        raise NotImplementedError

    def lacks(self, cls: type, name: str, where: Location, owner: type | None = None) -> None:
        """A lookup on a class passed by everything before `owner` (None: all of it) without finding the name."""
        self.order(cls, where)
        for each in cls.__mro__:
            if each is owner:
                return
            if is_changeable(each):
                self.absent.setdefault(each, {}).setdefault(name, where)

    def order(self, cls: type, where: Location) -> None:
        """What is looked up on a class of the user's is looked for in the classes that it now has as its bases."""
        if cls not in self.orders and len(cls.__mro__) > 2 and self.kinds.origins.of_module(cls.__module__) == USER:
            self.orders[cls] = OrderGuard(cls, where)

    def lacks_over_instances(self, cls: type, name: str, where: Location) -> None:
        """The object itself has the name: only a property of the user's own classes could come before it."""
        for each in cls.__mro__:
            if self.kinds.origins.of_module(each.__module__) == USER:
                self.absent.setdefault(each, {}).setdefault(name, where)

    def special_methods(self, cls: type, where: Location) -> None:
        """An object was used: the special methods of its class, those that it does not have among them,
        decide what came of it."""
        if cls in self._special or not is_changeable(cls):
            return
        self._special.add(cls)
        for name in SPECIAL:
            owner, raw = class_lookup(cls, name)
            if owner is None or not is_changeable(owner):
                self.lacks(cls, name, where, owner)
            else:
                self.class_value(cls, name, raw, where)

    def constructors(self, cls: type, where: Location) -> None:
        """A class of the user's was used, perhaps called: which constructors it has."""
        if self.kinds.origins.of_module(cls.__module__) == USER:
            for name in ("__new__", "__init__"):
                owner, raw = class_lookup(cls, name)
                self.lacks(cls, name, where, owner)
                if owner is not None and is_changeable(owner):
                    self.class_value(owner, name, raw, where)

    def _is_weft(self, cls: type) -> bool:
        return self.kinds.origins.of_module(cls.__module__) == INTERNAL

    def overrides(self, cls: type, where: Location) -> None:
        """A class of the user's under one of weft's that looks on it for more than the user's code names,
        as Function.apply does for backward."""
        if cls in self._overridden:
            return
        self._overridden.add(cls)
        for base in cls.__mro__:
            if self._is_weft(base):
                # its own are none that classes override
                for name in [n for n in base.__dict__ if not n.startswith("_")]:
                    owner, raw = class_lookup(cls, name)
                    self.lacks(cls, name, where, owner)
                    if raw is not MISSING:
                        self.class_value(cls, name, raw, where)

    def of_module(
        self, module: Any, name: str, path: str, where: Location, read: bool, store: Location | None
    ) -> Any:
        """The value of `module.name`, as `attribute` gives it: a global of the user's, or what the module's class has
        under the name, before it or where there is none."""
        if self.kinds.origins.of_module(module.__name__) != USER:
            return self.foreign(module, name, path, where)
        cls = type(module)
        owner, raw = class_lookup(cls, name) if is_changeable(cls) else (None, MISSING)
        if raw is not MISSING and hasattr(type(raw), "__set__"):
            return self.descriptor(module, name, raw, path, where)
        value = self.entry(GlobalSlot(module.__dict__, name, path), where, read, store)
        if is_changeable(cls):
            self.lacks(cls, name, where, owner)
        if value is not MISSING or not read:
            return value
        if owner is not None and is_changeable(owner):
            is_descriptor = hasattr(type(raw), "__get__")
            return self.descriptor(module, name, raw, path, where) if is_descriptor else self.entry(
                ClassSlot(owner, name, path), where)
        self.entry(GlobalSlot(module.__dict__, "__getattr__", path), where)  # the module's own is asked
        fallback = class_lookup(cls, "__getattr__")[1]
        if is_changeable(cls) and fallback is not MISSING:
            self.class_value(cls, "__getattr__", fallback, where)
        return MISSING

    def foreign(self, module: Any, name: str, path: str, where: Location) -> Any:
        """A name of a module that is not the user's, such as `weft.relu` or `F.relu`;
        numpy.random's hidden generator is watched.

        A name that is not there yet is no fact: libraries import parts of themselves when they are first asked.
        """
        value = module.__dict__.get(name, MISSING)
        if value is MISSING and module is np and name == "random":  # loaded when it is first asked for
            value = np.random
        if value is not MISSING:
            self.entry(GlobalSlot(module.__dict__, name, path), where)
        owner = getattr(value, "__self__", None) if module.__name__ == "numpy.random" else None
        if isinstance(owner, np.random.RandomState) and callable(value):
            self.random(owner, path, where)
            self.asked_state(owner, name, path, where)
        return value

    def descriptor(
        self, obj: Any, name: str, raw: Any, path: str, where: Location, is_asked: bool = True
    ) -> Any:
        """What a property or another descriptor of the object's class gives: code that is watched says what it reads.
        Of a property whose getter is written in C the answer is asked for again. is_asked: of an older object."""
        if is_asked and isinstance(raw, property) and raw.fget is not None and not isinstance(raw.fget, FunctionType):
            self.answer(functools.partial(getattr, obj, name), obj, name, path, where)
        return self.class_value(type(obj), name, raw, where)

    def whole(self, value: Any, text: str, where: Location) -> Iterator[str]:
        """The names of an object's attributes and its classes', for code that makes names at run time;
        no other ones may appear."""
        kind = self.kinds.of(value)
        if kind is Kind.NAMESPACE:
            if self.kinds.origins.of_module(value.__name__) == USER and "__getattr__" not in vars(value):
                names = f"the names of globals of {value.__name__}"
                self.answer(functools.partial(list, vars(value)), vars(value), "names", names, where)
            yield from [n for n, v in vars(value).items() if callable(v) or self.kinds.of(v) is Kind.SCALAR]
            return
        if kind is Kind.LEAF or kind in CONTAINERS:
            return
        if kind is Kind.FUNCTION and self.kinds.origins.of_file(value.__code__.co_filename) != USER:
            return  # a method of a tensor: its tables are no state of the user's
        held = instance_dict(value)
        if kind is not Kind.CLASS and held is not NOTHING:
            if id(value) not in self.keys:
                self.keys[id(value)] = KeysGuard(value, self._names_before(value), where, text)
            yield from list(held)
        for cls in (value if kind is Kind.CLASS else type(value)).__mro__:
            if self.kinds.origins.of_module(cls.__module__) == USER:
                if id(cls) not in self.keys:
                    getattr(cls, "__annotations__", None)  # asking makes them
                    self.keys[id(cls)] = KeysGuard(cls, self._names_before(cls), where, cls.__name__)
                yield from [n for n in cls.__dict__ if not (n.startswith("__") and n.endswith("__"))]

    def note_new_names(self) -> None:
        """Record the attributes that such code has made since, as `setattr` does: they were not there before."""
        for guard in self.keys.values():
            holder = guard.holder
            is_class = isinstance(holder, type)
            for name in [n for n in vars(holder) if n not in guard.keys]:
                if is_class and name.startswith("__"):  # (Python's own)
                    continue
                slot = (ClassSlot if is_class else AttributeSlot)(holder, name, f"{guard.owner}.{name}")
                if slot.key not in self.entries:
                    self.entries[slot.key] = Entry(slot, MISSING, guard.where, self.is_known(holder))

    def _names_before(self, holder: Any) -> frozenset[str]:
        """The names of attributes that an object or class had before the call."""
        own = [entry for entry in self.entries.values() if entry.slot.holder is holder]
        gone = {entry.slot.name for entry in own if entry.before is not MISSING}
        return frozenset((vars(holder).keys() | gone) - {e.slot.name for e in own if e.before is MISSING})

    def class_attribute(
        self, cls: type, name: str, path: str, where: Location, read: bool, store: Location | None
    ) -> Any:
        """An attribute read from a class itself."""
        if name == "__annotations__":
            getattr(cls, name, None)  # asking makes them
        owner, raw = class_lookup(cls, name)
        if read:
            self.lacks(cls, name, where, owner)
        if owner is None and is_changeable(type(cls)):
            self.of_metaclass(cls, name, path, where, read)
        if store is None and is_changeable(cls) and (owner is None or not is_changeable(owner)):
            raw = class_lookup(type(cls), name)[1]
            if type(raw) is types.GetSetDescriptorType or type(raw) is types.MemberDescriptorType:
                return self.told(cls, name, path, where)
        if owner is not None and self._is_weft(owner) and not self._is_weft(cls):
            self.overrides(cls, where)
        if owner is None or not is_changeable(owner):
            return MISSING if store is None else self.entry(ClassSlot(cls, name, path), where, read, store)
        if isinstance(raw, DESCRIPTORS) or hasattr(type(raw), "__get__"):
            return self.class_value(cls, name, raw, where)
        if store is not None:
            self.entry(ClassSlot(cls, name, path), where, False, store)
        return self.entry(ClassSlot(owner, name, path), where, read)

    def of_metaclass(self, cls: type, name: str, path: str, where: Location, read: bool) -> None:
        """What a class has from its metaclass."""
        owner, raw = class_lookup(type(cls), name)
        self.lacks(type(cls), name, where, owner)
        if owner is None or not is_changeable(owner):
            return
        if isinstance(raw, DESCRIPTORS) or hasattr(type(raw), "__get__"):
            self.class_value(type(cls), name, raw, where)
        else:
            self.entry(ClassSlot(owner, name, path), where, read)

    def class_value(self, cls: type, name: str, raw: Any, where: Location) -> Any:
        """A method, property or other descriptor found on a class: guarded; the plain function, or MISSING
        where a call decides."""
        if is_changeable(cls) and (id(cls), name) not in self.classes:
            self.classes[id(cls), name] = ClassGuard(cls, name, raw, where)
            for function in _underlying(raw):
                if isinstance(function, CACHE) or (callable(function) and self.kinds.of(function) in CALLED):
                    self.note(function, f"{cls.__name__}.{name}", where)
            if isinstance(raw, functools.partialmethod):
                for part in ("func", "args", "keywords"):
                    self.entry(AttributeSlot(raw, part, f"{cls.__name__}.{name}.{part}"), where)
                self.structure(raw.keywords, f"{cls.__name__}.{name}.keywords", where)
            for method in ("__get__", "__set__"):
                if is_changeable(type(raw)) and (accessor := class_lookup(type(raw), method)[1]) is not MISSING:
                    self.class_value(type(raw), method, accessor, where)
        return raw if isinstance(raw, FunctionType) else MISSING


def _underlying(raw: Any) -> tuple[Any, ...]:
    candidates: tuple[Any, ...] = (raw,)
    if isinstance(raw, property):
        candidates = (raw.fget, raw.fset, raw.fdel)
    elif isinstance(raw, (classmethod, staticmethod)):
        candidates = (raw.__func__,)
    elif isinstance(raw, (functools.cached_property, functools.partialmethod)):
        candidates = (raw.func,)
    elif isinstance(raw, functools.singledispatchmethod):
        candidates = (raw.dispatcher,)
    return candidates
