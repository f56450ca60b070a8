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

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.compile.program.call_leaves import CallLeaves
from weft.compile.program.entry import Entry
from weft.guards.asked import solid_class
from weft.guards.content_guard import ContainerGuard
from weft.guards.guard import SlotGuard
from weft.guards.kinds import Kind, Kinds, is_changeable
from weft.guards.slots import AttributeSlot, Key, Slot, instance_dict
from weft.support import pytree
from weft.support.errors import CaptureError

# where an object stands: a leaf of the arguments, or what a place holds and the number of its leaf; and its class
Place = tuple[Any, type]
_OF_EVERY_CLASS = {"__dict__", "__weakref__"}  # what __slots__ may name of an object with attributes of any name


class ObjectCounts(CaptureError):
    """Which object an argument is counts for the function: no stand-in does."""


class ObjectArguments:
    """The stand-ins of one compiled function. Calls that use them come one after the other."""

    def __init__(self) -> None:
        self._stand_ins: dict[Place, Any] = {}
        self._inner: dict[Key, Slot] = {}  # places in stand-ins whose objects have stand-ins too, outer ones first
        self._counted: set[Place] = set()  # where stand-ins do not do
        self._held: set[int] = set()  # ids of what programs with stand-ins rely on elsewhere

    def __bool__(self) -> bool:
        return bool(self._stand_ins)

    def learn(self, entry: Entry, leaves: Sequence[Any], kinds: Kinds) -> dict[Key, Slot | None] | None:
        """Make stand-ins for the objects of a call in whose places others of the same class were when a program was
        captured, and for those that they hold. Returns the places in them that are inputs of the next program: what
        the program reads there, if it is a tensor or a number that is another one now. None, where there is no new
        stand-in."""
        lift: dict[Key, Slot | None] = {}
        count = len(self._stand_ins)
        for i, (old, new) in enumerate(zip(entry.guards.constants, leaves, strict=False)):
            bound = entry.guards.bound
            place = i if i < bound.given else (bound.key_of(i)[:-1], bound.key_of(i)[-1])
            self._learn(place, old, new, entry, kinds, lift)
        return lift if len(self._stand_ins) > count else None

    def _learn(
        self, where: Any, old: Any, new: Any, entry: Entry, kinds: Kinds, lift: dict[Key, Slot | None]
    ) -> None:
        """Make a stand-in for one object in place of an older one. lift: takes up the places that are inputs."""
        place = (where, type(new))
        if old is new or type(old) is not type(new) or not can_stand_in(new, kinds):
            return
        if place in self._stand_ins or place in self._counted:
            return
        stand_in = self._stand_ins[place] = object.__new__(type(new))
        for slot, value in _read_of(old, entry):
            now = AttributeSlot(new, slot.name, slot.text).get()
            target = AttributeSlot(stand_in, slot.name, slot.text)
            if kinds.can_lift(value, now):
                if kinds.holds_input(value) or value != now:
                    lift[target.key] = target
                continue
            if value is not now and type(value) is type(now) and pytree.is_node(value):
                lift[target.key] = target
            before, spec = pytree.flatten(value)
            after, same_spec = pytree.flatten(now)
            if spec == same_spec and any(can_stand_in(each, kinds) for each in after):
                lift[target.key] = self._inner[target.key] = target
                for number, (a, b) in enumerate(zip(before, after, strict=True)):
                    self._learn((target.key, number), a, b, entry, kinds, lift)

    @contextmanager
    def standing_in(self, leaves: CallLeaves) -> Iterator[None]:
        """Within the block stand-ins are the call's leaves in place of objects."""
        before: list[tuple[Any, dict[str, Any]]] = []
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
        self._held |= held

    def count(self, leaves: CallLeaves) -> dict[Place, Any]:
        """From now on the objects in whose places a call has stand-ins have programs of their own. Returns those."""
        places = {p: stand_in for p, stand_in in self._stand_ins.items() if id(stand_in) in leaves.objects}
        for place in places:
            del self._stand_ins[place]
        self._counted |= places.keys()
        return places

    def stand_in_again(self, places: dict[Place, Any]) -> None:
        """Take stand-ins back that did not do."""
        self._counted -= places.keys()
        self._stand_ins |= places


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


def _give(stand_in: Any, attributes: dict[str, Any]) -> None:
    object.__setattr__(stand_in, "__dict__", attributes)


def _read_of(holder: object, entry: Entry) -> Iterator[tuple[Slot, Any]]:
    """The attributes of an object that a program relies on, or takes anew at each call, with what they held."""
    for guard in entry.guards.python.guards:
        if isinstance(guard, SlotGuard) and type(guard.slot) is AttributeSlot and guard.holder is holder:
            yield guard.slot, guard.expected
    for place in entry.guards.bound.places:
        if type(place.slot) is AttributeSlot and place.slot.holder is holder:
            yield place.slot, place.slot.get()


def _held_by(entry: Entry) -> set[int]:
    """Ids of the objects whose places the guards are on, and of what must be there."""
    guards, constants = entry.guards.python, entry.guards.constants[entry.guards.spec.size :]
    keys = [key for guard in guards.guards if isinstance(guard, ContainerGuard) for key in guard.keys]
    slots = [*[place.slot for place in entry.guards.bound.places], *[write.target for write in entry.outputs.assigned]]
    holders = [each.holder for each in (*guards.guards, *slots)]
    return {id(value) for value in (*constants, *keys, *guards.holds_on_to(), *holders) if value is not None}
