"""One guard each: a fact about Python state that a captured program relies on, as source to check it and as a sentence
when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from weft.guards.kinds import Kind, Kinds, is_changeable
from weft.guards.rewrite import original
from weft.guards.slots import AttributeSlot, ClassSlot, ItemSlot, Slot, class_lookup, instance_dict
from weft.guards.values import MISSING, SCALARS, number_kind, same
from weft.support.locations import Location


@dataclass(frozen=True)
class Miss:
    """A guard that no longer holds: where the program read the value, what it was and is, and the slot to lift
    if it can be an input."""

    where: Location
    path: str
    old: Any
    new: Any
    is_number: bool = False
    lift_target: Slot | None = None
    remedy: str = ""

    def __str__(self) -> str:
        old, new = _short(self.old), _short(self.new)
        return f"{self.where}: {self.path} was {old}, is now {'another ' if old == new else ''}{new}"


def _short(value: Any) -> str:
    if issubclass(type(value), (FunctionType, type)):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(type(value), "__weft_route__"):  # a tensor: what it is, not what it holds
        return f"{type(value).__name__} of shape {list(value.dims)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Names:
    """The namespace of generated source: objects under stable names, and variables of their own for values
    that may be rebound."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {}
        self._bound: dict[int, str] = {}
        self._class_dicts: dict[type, str] = {}

    def bind(self, obj: object) -> str:
        """The name of this object."""
        name = self._bound.get(id(obj))
        if name is None:
            name = self._bound[id(obj)] = self.variable(obj)
        return name

    def bind_class_dict(self, cls: type) -> str:
        """The name of the live view of a class's own dict: looking through it costs less than asking
        the class each time."""
        name = self._class_dicts.get(cls)
        if name is None:
            name = self._class_dicts[cls] = self.variable(cls.__dict__)
        return name

    def variable(self, value: object) -> str:
        """A new name that holds `value`."""
        name = f"_{len(self.namespace)}"
        self.namespace[name] = value
        return name


class Guard:
    """A fact. by_epoch: it can change only by a write that bumps the epoch. remedy: what a user can do about calls that
    find it changed."""

    where: Location
    text: str
    remedy: str
    by_epoch: bool = False
    holder: object = None

    def source(self, names: Names) -> str:
        """An expression that is true while the fact holds; it may raise when it does not."""
        raise NotImplementedError

    def miss(self) -> Miss | None:
        """What changed, or None."""
        raise NotImplementedError

    def misses(self) -> list[Miss]:
        """Everything that changed, if the guard is on several places."""
        miss = self.miss()
        return [] if miss is None else [miss]

    def remedies(self) -> Iterator[Miss]:
        """Everything that changed, with what to do about it."""
        for miss in self.misses():
            yield replace(miss, remedy=self.remedy_for(miss))

    def remedy_for(self, miss: Miss) -> str:
        """What to do about a miss of this guard."""
        return self.remedy

    def holds_on_to(self) -> Iterator[Any]:
        """The values that must be in their places; those that may be others are left out."""
        return iter(())


OBJECT = "give the object as an argument, or change the one that was there in place of assigning another"
_REMEDIES = (  # of places that hold another value, by what the value is
    (lambda value: bool(number_kind(value)), (
        "nothing: a number that has changed once is an input of the next program; if it misses again, make it a tensor "
        "(weft.tensor)"
    )),
    (lambda value: isinstance(value, (bool, str, bytes, type(None))), (
        "each value has a program of its own; if it changes often, let a tensor decide (weft.where, weft.cond), or "
        "compile a function for each value"
    )),
    (lambda value: hasattr(type(value), "__weft_route__"), (
        "give the tensor as an argument, or write into the one that was there (copy_) in place of assigning another"
    )),
    (callable, (
        "define the function or class once, outside of what runs for each call: a new lambda is another function"
    )),
)


def remedy_of(old: Any, new: Any) -> str:
    """What to do about a place that holds another value."""
    for is_kind, remedy in _REMEDIES:
        if is_kind(new) and (is_kind(old) or old is None or old is MISSING):
            return remedy
    return OBJECT


class SlotGuard(Guard):
    """A slot still holds the value that was read: equal for plain values, identical for the rest,
    of the same kind if lifted."""

    def remedy_for(self, miss: Miss) -> str:
        return remedy_of(miss.old, miss.new)

    def __init__(self, slot: Slot, expected: Any, where: Location, kinds: Kinds, lifted: bool = False) -> None:
        self.slot, self.expected, self.where, self.text = slot, expected, where, slot.text
        self.holder, self.lifted, self.equal, self.kinds = slot.holder, lifted, kinds.equal, kinds
        self.by_value = kinds.of(expected) in (Kind.SCALAR, Kind.TUPLE)
        self.by_epoch = isinstance(slot, AttributeSlot) and isinstance(slot.holder, kinds.by_epoch)
        self._names, self._variable = Names(), ""

    def source(self, names: Names) -> str:
        place = self.slot.source(names.bind)
        if self.lifted:
            return f"({place}.__class__ is {names.bind(type(self.expected))} or {names.variable(self.accept)}({place}))"
        if not self.by_value or self.expected is None or isinstance(self.expected, bool):
            return f"{place} is {names.bind(self.expected)}"
        self._names, self._variable = names, names.variable(self.expected)
        return f"({place} is {self._variable} or {names.variable(self.accept)}({place}))"

    def accept(self, new: Any) -> bool:
        """Whether a value that is another object will do; from then on it is the one compared first."""
        if self.lifted:
            return number_kind(new) == number_kind(self.expected)
        if self.kinds.of(new) is Kind.SYMBOL:
            new = self.kinds.number_of(new)
        if not same(self.expected, new, self.equal):
            return False
        self.expected = self._names.namespace[self._variable] = new
        return True

    def holds_on_to(self) -> Iterator[Any]:
        return iter(() if self.lifted else (self.expected,))

    def miss(self) -> Miss | None:
        new = self.slot.get()
        if new is MISSING and self.expected is MISSING:
            return None
        if new is self.expected or ((self.by_value or self.lifted) and self.accept(new)):
            return None
        is_number = bool(number_kind(new) and number_kind(self.expected))
        return Miss(
            self.where, self.text, self.expected, new, is_number,
            self.slot if self.kinds.can_lift(self.expected, new) else None,
        )


class AbsentGuard(Guard):
    """A name is still not there: nothing shadows what was found elsewhere, or a default is still taken."""

    def remedy_for(self, miss: Miss) -> str:
        if miss.old is not MISSING:
            return remedy_of(miss.old, miss.new)
        return "set it before the first call, so that it is there whenever the function runs"

    def __init__(self, slot: Slot, where: Location, kinds: Kinds) -> None:
        self.slot, self.where, self.text, self.holder = slot, where, slot.text, slot.holder
        self.by_epoch = isinstance(slot, AttributeSlot) and isinstance(slot.holder, kinds.by_epoch)

    def source(self, names: Names) -> str:
        place = names.bind(self.holder)
        if isinstance(self.slot, ClassSlot):
            return f"{self.slot.name!r} not in {names.bind_class_dict(self.slot.holder)}"
        if isinstance(self.slot, ItemSlot):
            return self.slot.absent_source(names.bind)
        if instance_dict(self.holder):
            return f"{self.slot.name!r} not in {place}.__dict__"
        return f"{names.variable(self.slot.get)}() is {names.bind(MISSING)}"

    def miss(self) -> Miss | None:
        new = self.slot.get()
        return None if new is MISSING else Miss(self.where, self.text, self._read_instead(), new)

    def _read_instead(self) -> Any:
        """What the program read in place of what was absent: a plain value of the object's class; else MISSING."""
        if not isinstance(self.slot, AttributeSlot):
            return MISSING
        value = class_lookup(type(self.holder), self.slot.name)[1]
        return value if type(value) in SCALARS else MISSING


class ClassGuard(Guard):
    """Looking a name up on a class still finds the same method, property or other descriptor."""

    remedy = "change classes before the first call only"

    def __init__(self, cls: type, name: str, raw: Any, where: Location) -> None:
        self.holder: type = cls
        self.name, self.raw, self.where, self.text = name, raw, where, f"{cls.__name__}.{name}"

    def source(self, names: Names) -> str:
        if type(self.holder) is type and self._is_found_as_it_is():
            return f"{names.bind(self.holder)}.{self.name} is {names.bind(self.raw)}"
        parts: list[str] = []
        for cls in self.holder.__mro__:
            held = names.bind_class_dict(cls)
            if self.name in cls.__dict__:
                return " and ".join([*parts, f"{held}[{self.name!r}] is {names.bind(self.raw)}"])
            if is_changeable(cls):  # what it defines from now on comes first
                parts.append(f"{self.name!r} not in {held}")
        return "False"

    def _is_found_as_it_is(self) -> bool:
        """Whether the class's own lookup gives the raw value: a descriptor may make another of it, or raise."""
        try:
            return type.__getattribute__(self.holder, self.name) is self.raw
        except Exception:
            return False

    def miss(self) -> Miss | None:
        new = class_lookup(self.holder, self.name)[1]
        return None if new is self.raw else Miss(self.where, self.text, self.raw, new)


class OrderGuard(Guard):
    """A class still has the same classes behind it, in the same order."""

    remedy = "change classes before the first call only"

    def __init__(self, cls: type, where: Location) -> None:
        self.holder: type = cls
        self.order, self.where, self.text = cls.__mro__, where, f"bases of {cls.__name__}"

    def source(self, names: Names) -> str:
        return f"{names.bind(self.holder)}.__mro__ is {names.bind(self.order)}"

    def miss(self) -> Miss | None:
        now = self.holder.__mro__
        return None if now is self.order else Miss(self.where, self.text, self.order, now)


class AbsentNamesGuard(Guard):
    """A class still defines none of the names that were looked up on it in vain, or found behind it."""

    remedy = "change classes before the first call only"

    def __init__(self, cls: type, names: dict[str, Location]) -> None:
        self.holder: type = cls
        self.names, self.where, self.text = names, next(iter(names.values())), cls.__name__

    def source(self, names: Names) -> str:
        if len(self.names) == 1:
            return f"{next(iter(self.names))!r} not in {names.bind_class_dict(self.holder)}"
        return f"{names.variable(self.holder.__dict__.keys())}.isdisjoint({names.variable(frozenset(self.names))})"

    def miss(self) -> Miss | None:
        name = next((n for n in self.names if n in self.holder.__dict__), None)
        if name is None:
            return None
        return Miss(self.names[name], f"{self.text}.{name}", MISSING, self.holder.__dict__[name])


class TypeGuard(Guard):
    """An object is still of the same class."""

    remedy = "nothing, if there are few classes: each has a program of its own; else give what differs as a tensor"

    def __init__(self, obj: object, where: Location, text: str, kinds: Kinds) -> None:
        self.holder, self.cls, self.where, self.text = obj, type(obj), where, f"class of {text}"
        self.by_epoch = isinstance(obj, kinds.by_epoch)

    def source(self, names: Names) -> str:
        return f"{names.bind(self.holder)}.__class__ is {names.bind(self.cls)}"

    def miss(self) -> Miss | None:
        new = type(self.holder)
        return None if new is self.cls else Miss(self.where, self.text, self.cls, new)


class FunctionGuard(Guard):
    """A function still has the same code and default arguments."""

    remedy = "nothing, if it was edited or loaded again: it is compiled as it is now; else define it once"

    def __init__(self, function: FunctionType, where: Location) -> None:
        self.holder: FunctionType = function
        self.where, self.text = where, function.__qualname__
        self.code, self.defaults = original(function.__code__), function.__defaults__
        self.keywords = dict(function.__kwdefaults__ or {})

    def source(self, names: Names) -> str:
        f = names.bind(self.holder)
        parts = [
            f"({f}.__code__ is {names.bind(self.code)} or {names.variable(self.has_code)}())",
            f"{f}.__defaults__ is {names.bind(self.defaults)}",
        ]
        parts.append(f"{names.variable(self.same_keywords)}()" if self.keywords else f"not {f}.__kwdefaults__")
        return " and ".join(parts)

    def has_code(self) -> bool:
        """Whether the code is as it was, also while it is rewritten for a capture."""
        return original(self.holder.__code__) is self.code

    def same_keywords(self) -> bool:
        """Whether the keyword-only defaults are unchanged."""
        now = self.holder.__kwdefaults__ or {}
        return now.keys() == self.keywords.keys() and all(same(v, now[k]) for k, v in self.keywords.items())

    def holds_on_to(self) -> Iterator[Any]:
        return iter((self.defaults, *self.keywords.values()))

    def miss(self) -> Miss | None:
        f = self.holder
        if not self.has_code():
            return Miss(self.where, f"code of {self.text}", self.code, f.__code__)
        if f.__defaults__ is not self.defaults:
            return Miss(self.where, f"default arguments of {self.text}", self.defaults, f.__defaults__)
        if not self.same_keywords():
            return Miss(self.where, f"default arguments of {self.text}", self.keywords, f.__kwdefaults__)
        return None


class ShadowGuard(Guard):
    """No global hides a builtin that was used."""

    remedy = "give the global another name than Python's own function has"

    def __init__(self, scope: dict[str, Any], names: dict[str, Location]) -> None:
        self.holder, self.names = scope, names
        self.where, self.text = next(iter(names.values())), "builtins"

    def source(self, names: Names) -> str:
        return f"{names.bind(self.holder)}.keys().isdisjoint({tuple(self.names)!r})"

    def miss(self) -> Miss | None:
        scope: Any = self.holder
        hidden = next((n for n in self.names if n in scope), None)
        return None if hidden is None else Miss(self.names[hidden], f"global {hidden}", MISSING, scope[hidden])


def ordered(guards: list[Guard]) -> Iterator[Guard]:
    """The guards, those of one object together, objects in the order in which they were first read."""
    first: dict[int, int] = {}
    for guard in guards:
        first.setdefault(id(guard.holder), len(first))
    return iter(sorted(guards, key=lambda g: first[id(g.holder)]))
