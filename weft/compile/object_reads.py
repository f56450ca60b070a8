"""What a program has read of an object, by names and kinds of values: by this another object is compared with it, once
the program or the object may be gone."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from weft.compile.program.entry import Entry
from weft.guards.asked import solid_class
from weft.guards.guard import SlotGuard
from weft.guards.kinds import Kind, Kinds, is_changeable
from weft.guards.slots import AttributeSlot, Slot
from weft.guards.values import MISSING, is_list_of_numbers, number_kind
from weft.support import limits, pytree

Reference = Callable[[], object]
_OF_EVERY_CLASS: Final = {"__dict__", "__weakref__"}  # what __slots__ may name of an object with attributes of any name


@dataclass(frozen=True, eq=False)
class ValueRead:
    """What an attribute held. same: refers to it, if something can; value: a number, or the numbers of a list, None for
    all else; has_input: whether it held what a program can take anew at every call; is_lifted: whether the program
    does; spec: its structure, None where that is not looked at; parts: the objects in it; leaves: refer to all that is
    in it."""

    name: str
    text: str
    cls: type
    same: Reference
    value: Any
    has_input: bool
    is_lifted: bool
    spec: pytree.TreeSpec | None
    parts: tuple[ObjectRead | None, ...]
    leaves: tuple[Reference, ...]

    def now_in(self, holder: object) -> Any:
        """What the attribute of an object holds now."""
        return AttributeSlot(holder, self.name, self.text).get()

    def can_lift(self, now: object, kinds: Kinds) -> bool:
        """Whether the place can be an input (see Kinds.can_lift)."""
        return kinds.can_lift(self.value, now) or (self.has_input and kinds.holds_input(now))

    def has_changed(self, now: object) -> bool:
        """Of what can be an input: whether it is another one."""
        return self.has_input or self.is_lifted or bool(self.value != now)

    def is_alike(self, now: object, kinds: Kinds) -> bool:
        """Whether a program may do for both: they are one object, plain values, inputs, or objects that are alike."""
        if self.same() is now or self.can_lift(now, kinds):
            return True
        if type(now) is not self.cls:
            return False
        if kinds.of(now) is Kind.SCALAR:
            return True
        leaves, spec = pytree.flatten(now)
        if self.spec is None:
            return False
        if spec != self.spec:
            return pytree.LEAF not in (spec, self.spec)  # containers of other lengths
        return all([
            same() is leaf or isinstance(leaf, kinds.inputs) or kinds.of(leaf) is Kind.SCALAR
            or (part is not None and part.is_alike(leaf, kinds))
            for same, part, leaf in zip(self.leaves, self.parts, leaves, strict=True)
        ])


@dataclass(frozen=True, eq=False)
class ObjectRead:
    """What a program has read of an object. same: refers to that."""

    same: Reference
    cls: type
    attributes: tuple[ValueRead, ...]

    def is_alike(self, now: object, kinds: Kinds) -> bool:
        """Whether one program may do for both objects."""
        if self.same() is now:
            return True
        if type(now) is not self.cls or not can_stand_in(now, kinds):
            return False
        return all(a.is_alike(a.now_in(now), kinds) for a in self.attributes)

    def is_other_container(self, attribute: ValueRead, now: object) -> bool:
        """Whether an attribute of its held a list, dict or the like, and another object has another one there."""
        holder = self.same()
        is_one = holder is not None and attribute.now_in(holder) is now
        return not is_one and type(now) is attribute.cls and pytree.is_node(now)


class Reader:
    """What a program has read of objects."""

    def __init__(self, entry: Entry, kinds: Kinds) -> None:
        self._kinds = kinds
        # by the ids of holders: places, what was there, and whether it is an input
        self._read: dict[int, list[tuple[Slot, Any, bool]]] = {}
        for guard in entry.guards.python.guards:
            if isinstance(guard, SlotGuard) and type(guard.slot) is AttributeSlot:
                self._read.setdefault(id(guard.holder), []).append((guard.slot, guard.expected, guard.lifted))
        for place in entry.guards.bound.places:
            if type(place.slot) is AttributeSlot:
                self._read.setdefault(id(place.slot.holder), []).append((place.slot, place.slot.get(), True))

    def read_of(self, value: object, within: frozenset[int] = frozenset()) -> ObjectRead | None:
        """What was read of one object; None where no stand-in does for it. within: ids of the objects that hold it."""
        if id(value) in within or not can_stand_in(value, self._kinds):
            return None
        within |= {id(value)}
        attributes = [self._value(*each, within) for each in self._read.get(id(value), ())]
        return ObjectRead(_reference(value), type(value), tuple(attributes))

    def _value(self, slot: Slot, value: Any, is_lifted: bool, within: frozenset[int]) -> ValueRead:
        plain: Any = None
        if number_kind(value) is not None:
            plain = value
        elif is_list_of_numbers(value):
            plain = type(value)(value)
        leaves, structure = pytree.flatten(value)
        spec: pytree.TreeSpec | None = structure
        if len(leaves) > limits.LEAVES_THAT_ARE_NOTED:
            leaves, spec = [], None
        return ValueRead(
            slot.name, slot.text, type(value), _reference(value), plain, self._kinds.holds_input(value), is_lifted,
            spec, tuple([self.read_of(leaf, within) for leaf in leaves]), tuple(map(_reference, leaves)),
        )


def _reference(value: object) -> Reference:
    """What gives the value as long as it lives; nothing for what nobody can refer to so."""
    try:
        return weakref.ref(value)
    except TypeError:
        return _nothing


def _nothing() -> object:
    return MISSING


def without_keys(read: ObjectRead | None) -> ObjectRead | None:
    """The same, holding on to no object that is the key of a dict."""
    if read is None:
        return None
    return replace(read, attributes=tuple([
        replace(a, parts=tuple(map(without_keys, a.parts))) if a.spec is None or has_plain_keys(a.spec)
        else replace(a, spec=None, parts=(), leaves=())
        for a in read.attributes
    ]))


def has_plain_keys(spec: pytree.TreeSpec) -> bool:
    """Whether what the containers of a structure have beside their children are plain values and classes."""
    meta = spec.meta if isinstance(spec.meta, (list, tuple)) else (spec.meta,)
    return all(isinstance(each, (str, int, float, type, type(None))) for each in meta) and all(
        map(has_plain_keys, spec.children)
    )


def can_stand_in(value: object, kinds: Kinds) -> bool:
    """Whether an object of the same class with the same `__dict__` is the same to whoever does not ask for identity:
    all that it holds is there."""
    cls = type(value)
    if kinds.of(value) is not Kind.INSTANCE or not is_changeable(cls) or solid_class(cls) is not object:
        return False
    slots = {name for c in cls.__mro__ for name in _names(c.__dict__.get("__slots__", ()))}
    return bool(cls.__dictoffset__) and slots <= _OF_EVERY_CLASS and not hasattr(cls, "__del__")


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
