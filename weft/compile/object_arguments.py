"""Objects among a function's arguments that are others at every call: a batch, a cache of keys and values, the state of
a simulation.

What a program relies on are places of objects, so that another object makes another program. Once a call brings another
object of the same class, programs are made of a stand-in: an object of this class whose `__dict__` is, while a call
runs, the one of the call's object. What the function reads and writes there is what the caller's object holds, tensors
in it are inputs, and where the function returns or keeps the stand-in, its caller gets the object.

This does for no object whose id or hash the function asks for, or that it reaches otherwise too: each of those has a
program of its own. (What it compares by identity with an object that guards know is another object, then.)
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, ModuleType
from typing import Any

from weft.compile.assumptions import Assumptions
from weft.compile.object_reads import ObjectRead, can_stand_in, has_plain_keys
from weft.compile.program.call_leaves import CallLeaves
from weft.compile.program.entry import Entry
from weft.guards.content_guard import ContainerGuard
from weft.guards.kinds import Kind, Kinds
from weft.guards.slots import AttributeSlot, ClassSlot, GlobalSlot, Key, Slot, instance_dict
from weft.guards.values import MISSING
from weft.support import pytree
from weft.support.errors import CaptureError

# where an object stands: a leaf of the arguments, or what a place holds and the number of its leaf; and its class
Place = tuple[Any, type]


class ObjectCounts(CaptureError):
    """Which object an argument is counts for the function: no stand-in does. stand_ins: those that were tried, once
    they are taken away."""

    stand_ins: Mapping[Place, Any] = MappingProxyType({})


class ObjectArguments:
    """The stand-ins of one compiled function. Calls that use them come one after the other."""

    def __init__(self) -> None:
        self._stand_ins: dict[Place, Any] = {}
        self._inner: dict[Key, Slot] = {}  # places in stand-ins whose objects have stand-ins too, outer ones first
        self._counted: set[Place] = set()  # where stand-ins do not do
        # by program with stand-ins: ids of what it relies on elsewhere; and all of these
        self._held_by: weakref.WeakKeyDictionary[Entry, set[int]] = weakref.WeakKeyDictionary()
        self._held: set[int] = set()
        self._count = 0  # of programs of which it is

    def __bool__(self) -> bool:
        return bool(self._stand_ins)

    def __len__(self) -> int:
        return len(self._stand_ins)

    def learn(
        self, places: Sequence[Any], read: Sequence[ObjectRead | None], leaves: Sequence[Any], kinds: Kinds,
        assumptions: Assumptions,
    ) -> Assumptions:
        """Make stand-ins for the objects of a call in whose places others of the same class were when a program was
        captured, and for those that they hold. places: of the leaves; read: what the program has read of the objects
        there. Returns what the next program assumes: inputs are the places in the stand-ins that the program reads, if
        a tensor or a number is another one there now."""
        lift: dict[Key, Slot | None] = {}
        for place, old, new in zip(places, read, leaves, strict=False):
            self._learn(place, old, new, kinds, lift)
        news = {key: slot for key, slot in lift.items() if key not in assumptions.lifted}
        return assumptions.lifting_changed(news) if news.keys() - assumptions.fixed else assumptions

    def _learn(self, where: Any, old: ObjectRead | None, new: Any, kinds: Kinds, lift: dict[Key, Slot | None]) -> None:
        """Make a stand-in for one object in place of an older one. lift: takes up the places that are inputs."""
        place = (where, type(new))
        if old is None or old.same() is new or old.cls is not type(new) or place in self._counted:
            return
        stand_in = self._stand_ins.get(place)
        if stand_in is new or not can_stand_in(new, kinds):
            return
        if stand_in is None:
            stand_in = self._stand_ins[place] = object.__new__(type(new))
        for value in old.attributes:
            now = value.now_in(new)
            target = AttributeSlot(stand_in, value.name, value.text)
            if value.can_lift(now, kinds):
                if value.has_changed(now):
                    lift[target.key] = target
                continue
            if old.is_other_container(value, now):
                lift[target.key] = target
            if value.spec is None:
                continue
            after, spec = pytree.flatten(now)
            if spec == value.spec and any(can_stand_in(each, kinds) for each in after):
                lift[target.key] = self._inner[target.key] = target
                for number, (a, b) in enumerate(zip(value.parts, after, strict=True)):
                    self._learn((target.key, number), a, b, kinds, lift)

    def has_stand_in(self, place: Any, value: object) -> bool:
        """Whether there is a stand-in for objects of this one's class in a place."""
        return (place, type(value)) in self._stand_ins

    def is_for(self, entry: Entry, value: object) -> bool:
        """Whether a program is made of a stand-in for objects of this one's class as its first argument."""
        stand_in = self._stand_ins.get((0, type(value)))
        return stand_in is not None and entry.guards.constants[:1] == [stand_in]

    @contextmanager
    def standing_in(self, leaves: CallLeaves) -> Iterator[None]:
        """Within the block stand-ins are the call's leaves in place of objects."""
        before: list[tuple[Any, dict[str, Any]]] = []
        if self._count != len(self._held_by):  # a program has come, or is gone
            self._held, self._count = set().union(*self._held_by.values()), len(self._held_by)
        places = Counter(map(id, leaves))  # in how many of those seen so far each object stands

        def lend(where: Any, value: Any) -> Any:
            """The stand-in for an object, which has its attributes from now on; None where there is none."""
            stand_in = self._stand_ins.get((where, type(value)))
            if stand_in is None or places[id(value)] > 1:
                return None
            if id(value) in self._held or id(instance_dict(value)) in self._held:
                return None
            before.append((stand_in, instance_dict(stand_in)))
            _give(stand_in, instance_dict(value))
            leaves.objects[id(stand_in)] = value
            return stand_in

        try:
            for i, leaf in enumerate(leaves):
                stand_in = lend(i, leaf)
                if stand_in is not None:
                    leaves[i] = stand_in
            for key, slot in self._inner.items():
                held = pytree.flatten(slot.get())[0]
                places.update(map(id, held))
                for number, value in enumerate(held):
                    stand_in = lend((key, number), value)
                    if stand_in is not None:
                        leaves.inner[key, number] = stand_in
            yield
        finally:  # (another call of the function may be on its way around this one)
            for stand_in, attributes in reversed(before):
                _give(stand_in, attributes if attributes else {})

    def with_stand_ins(self, leaves: list[Any], objects: Mapping[int, Any]) -> list[Any]:
        """The leaves of a call, those of its objects that have stand-ins (by the ids of these) replaced."""
        if not objects:
            return leaves
        pairs = [(self._stand_ins.get((i, type(leaf))), leaf) for i, leaf in enumerate(leaves)]
        return [stand_in if objects.get(id(stand_in)) is leaf else leaf for stand_in, leaf in pairs]

    def keep(self, entry: Entry, objects: Collection[Any]) -> None:
        """Take up a program made of stand-ins for these objects, if there are some. Raises ObjectCounts where it relies
        on one of them elsewhere too."""
        if not objects:
            return
        held = _held_by(entry)
        for each in objects:
            if id(each) in held or id(instance_dict(each)) in held:
                raise ObjectCounts(f"an argument of type {type(each).__name__} is also reached otherwise")
        self._held_by[entry] = held

    def holds_others(self, entry: Entry, kinds: Kinds) -> bool:
        """Whether a program keeps something alive that belongs to the objects it was made for: what must be in their
        places, or among the arguments."""
        specs = (entry.guards.spec, *[place.spec for place in entry.guards.bound.places])
        if len(entry.programs) > 1 or not all(map(has_plain_keys, specs)):  # (calls may go on in other programs)
            return True
        ids = {id(stand_in) for stand_in in self._stand_ins.values()}
        values = [value for value in entry.guards.constants if id(value) not in ids]
        for guard in entry.guards.python.guards:
            if id(guard.holder) in ids:
                values += guard.holds_on_to()
        return not all(_is_nobodys(value, kinds) for value in values)

    def is_stand_in(self, value: object) -> bool:
        """Whether it is one of the stand-ins."""
        return any(value is stand_in for stand_in in self._stand_ins.values())

    def is_anybodys(self, slot: Slot | None) -> bool:
        """Whether a place lies in a stand-in, or in what is no object's."""
        return slot is None or type(slot) in (GlobalSlot, ClassSlot) or self.is_stand_in(slot.holder)

    def count(self, leaves: CallLeaves) -> dict[Place, Any]:
        """From now on the objects in whose places a call has stand-ins have programs of their own. Returns those."""
        places = {p: stand_in for p, stand_in in self._stand_ins.items() if id(stand_in) in leaves.objects}
        for place in places:
            del self._stand_ins[place]
        self._counted |= places.keys()
        return places

    def stand_in_again(self, places: Mapping[Place, Any]) -> None:
        """Take stand-ins back that did not do."""
        self._counted -= places.keys()
        self._stand_ins.update(places)


def _is_nobodys(value: Any, kinds: Kinds) -> bool:
    """Whether a value belongs to no object: a plain one, a class, a function that a module has."""
    kind = kinds.of(value)
    if kind is Kind.TUPLE:
        return all(_is_nobodys(part, kinds) for part in value)
    if kind is Kind.FUNCTION:
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        return value.__closure__ is None and not vars(value) and _is_nobodys(defaults, kinds)
    if kind is Kind.BUILTIN:
        return value.__self__ is None or isinstance(value.__self__, ModuleType)
    return kind in (Kind.SCALAR, Kind.CLASS, Kind.NAMESPACE, Kind.SYMBOL) or value is MISSING


def _give(stand_in: Any, attributes: dict[str, Any]) -> None:
    object.__setattr__(stand_in, "__dict__", attributes)


def _held_by(entry: Entry) -> set[int]:
    """Ids of the objects whose places the guards are on, and of what must be there."""
    guards, constants = entry.guards.python, entry.guards.constants[entry.guards.spec.size :]
    keys = [key for guard in guards.guards if isinstance(guard, ContainerGuard) for key in guard.keys]
    slots = [*[place.slot for place in entry.guards.bound.places], *[write.target for write in entry.outputs.assigned]]
    holders = [each.holder for each in (*guards.guards, *slots)]
    return {id(value) for value in (*constants, *keys, *guards.holds_on_to(), *holders) if value is not None}
