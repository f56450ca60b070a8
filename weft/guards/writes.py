"""What the call changed: numbers and objects that a program must write back, and changes that cannot be repeated."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any, Final

from weft.guards.effects import MOVE_OUT, USE_OURS, SideEffectError
from weft.guards.kinds import Kind, Kinds
from weft.guards.reads import Reads
from weft.guards.slots import AttributeSlot, ContentSlot, EndSlot, HiddenSlot, ItemSlot, Slot, instance_dict
from weft.guards.snapshots import Contents, Entry
from weft.guards.values import MISSING, key_text, number_kind
from weft.guards.visit import Visitor
from weft.support.locations import Location


@dataclass(frozen=True)
class NumberWrite:
    """The call rebound a number of an older object. `value` is what it left there: a number, or a symbol made
    from a lifted one."""

    target: Slot
    old: Any
    value: Any
    where: Location


@dataclass(frozen=True)
class ObjectWrite:
    """The call rebound a name or an item of an older object (or removed it: MISSING), or changed what a container holds
    (target: a ContentSlot).

    inputs: the places in which the call may have read tensors that the next call finds replaced.
    is_read: whether it may have read the target.
    """

    target: Any  # a Slot, or what stands for one
    old: Any
    value: Any
    where: Location
    inputs: tuple[Slot, ...] = ()
    is_read: bool = True


Write = NumberWrite | ObjectWrite
_WITH_PARTS: Final = (Kind.LIST, Kind.TUPLE, Kind.DICT, Kind.SET, Kind.INSTANCE)
_MOST_PARTS: Final = 1000  # of an object, until it is taken for one that does not hold itself


def drop_fresh(reads: Reads, result: Any, kinds: Kinds) -> None:
    """Forget objects that only frames knew and that the call itself made, with the names of their attributes: those
    that die with it, and those it returned."""
    for key in [key for key, entry in reads.entries.items() if id(entry.slot.holder) in reads.fresh]:
        del reads.entries[key]
    for holder in reads.keys.keys() & reads.fresh.keys():
        del reads.keys[holder]
    doubtful = [e for e in reads.entries.values() if id(e.slot.holder) in reads.tentative]
    for entry in doubtful:
        del reads.entries[entry.slot.key]
    returned = ids_in(result, kinds)
    parked: list[tuple[Entry, Any, Any]] = []
    for entry in doubtful:
        if id(entry.slot.holder) not in returned and (ref := _weak(entry.slot.holder)) is not None:
            parked.append((entry, ref, _weakened(entry, reads)))
        entry.slot.holder = None
    doubtful.clear()
    names = [(guard, _weak(guard.holder)) for key, guard in reads.keys.items() if key in reads.tentative]
    for guard, _ in names:
        del reads.keys[id(guard.holder)]
        guard.holder = None
    reads.tentative.clear()
    if any([_holds_itself(ref(), kinds) for ref in {id(ref): ref for _, ref, _ in parked}.values()]):
        gc.collect()  # else it would seem to be older
    for entry, ref, before in parked:
        entry.slot.holder = ref()
        if before is not None:
            entry.before = before()
        if entry.slot.holder is not None:
            reads.entries[entry.slot.key] = entry
    for guard, ref in names:
        guard.holder = None if ref is None else ref()
        if guard.holder is not None and id(guard.holder) not in returned:
            reads.keys[id(guard.holder)] = guard


def _weakened(entry: Entry, reads: Reads) -> Any:
    """A weak reference in place of the object that an entry's holder had and still has, if it too may be the call's."""
    before = entry.before
    if id(before) not in reads.tentative or entry.slot.get() is not before or (ref := _weak(before)) is None:
        return None
    entry.before = None
    return ref


def _holds_itself(value: Any, kinds: Kinds) -> bool:
    """Whether an object stands in a cycle of references: nobody may hold it, and yet it is there."""
    seen: set[int] = set()
    pending = [] if value is None else _parts(value, kinds)
    while pending and len(seen) < _MOST_PARTS:
        part = pending.pop()
        if part is value:
            return True
        if id(part) not in seen:
            seen.add(id(part))
            pending += _parts(part, kinds)
    return False


def _parts(value: Any, kinds: Kinds) -> list[Any]:
    kind = kinds.of(value)
    if kind in (Kind.LIST, Kind.TUPLE, Kind.SET):
        return list(value)
    if kind is Kind.DICT:
        return list(value.values())
    return list(instance_dict(value).values()) if kind is Kind.INSTANCE else []


def _weak(obj: Any) -> Any:
    try:
        return weakref.ref(obj)
    except TypeError:
        return None


def ids_in(tree: Any, kinds: Kinds) -> set[int]:
    """The ids of a value and of what it is made of: items, members, attributes."""
    ids: set[int] = set()
    pending = [tree]
    while pending:
        value = pending.pop()
        if id(value) not in ids and kinds.of(value) in _WITH_PARTS:
            ids.add(id(value))
            pending += _parts(value, kinds)
    return ids


def writes_of(reads: Reads, visitor: Visitor, kinds: Kinds) -> list[Write]:
    """The writes of the call. Raises SideEffectError for what a program cannot repeat."""
    for random in reads.randoms.values():
        if random.changed():
            raise SideEffectError(random.where, f"draws foreign random numbers ({random.text})", USE_OURS)
    for drawn in reads.drawn.values():
        if drawn.changed():
            raise SideEffectError(
                drawn.where, f"draws from an iterator that existed before the call ({drawn.text})", MOVE_OUT
            )
    for opaque in reads.opaques.values():
        if opaque.changed():
            raise SideEffectError(
                opaque.where, f"changes a {type(opaque.value).__name__} that existed before the call ({opaque.text})",
                MOVE_OUT,
            )
    for answer in reads.answers.values():
        if answer.is_steady and not answer.holds():
            raise SideEffectError(answer.where, f"changes {answer.text}", MOVE_OUT)
    for array in reads.arrays.values():
        if array.changed():
            where = _line_of(reads, visitor, array.array, array.where)
            raise SideEffectError(where, f"changes a NumPy array that existed before the call ({array.text})", MOVE_OUT)
    reads.note_new_names()
    writes: dict[Any, Write] = {}
    for contents in reads.containers.values():
        if contents.changed() or contents.appended:
            for write in _container_writes(contents, reads, visitor, kinds):
                writes[write.target.key] = write
    for entry in _new_names_last(list(reads.entries.values())):
        if id(entry.slot.holder) not in reads.containers and entry.changed():
            writes[entry.slot.key] = _entry_write(entry, kinds)
    return list(writes.values())


def _new_names_last(entries: list[Entry]) -> list[Entry]:
    """Attributes that the call made, behind all others: they are made anew in the order in which it made them, which
    whoever goes over an object's names can see."""
    new = [e for e in entries if type(e.slot) is AttributeSlot and e.before is MISSING]
    places = {id(e.slot.holder): list(instance_dict(e.slot.holder)) for e in new}
    there = [e for e in new if e.slot.name in places[id(e.slot.holder)]]
    there.sort(key=lambda e: places[id(e.slot.holder)].index(e.slot.name))
    moved = set(map(id, there))
    return [*(e for e in entries if id(e) not in moved), *there]


def _is_number(value: Any, kinds: Kinds) -> bool:
    return number_kind(value) is not None or kinds.of(value) is Kind.SYMBOL


def _entry_write(entry: Entry, kinds: Kinds) -> Write:
    new, old = entry.slot.get(), entry.real if entry.lifted else entry.before
    where = entry.stores[0] if entry.stores else entry.where
    if type(entry.slot) is HiddenSlot:
        raise SideEffectError(where, f"replaces {entry.slot.text}", MOVE_OUT)
    was_number = not _in_container(entry.slot) if old is MISSING else _is_number(old, kinds)
    if was_number and _is_number(new, kinds):
        return NumberWrite(entry.slot, old, new, where)
    inputs = (entry.slot,) if entry.read and kinds.holds_input(old) else ()
    return ObjectWrite(entry.slot, old, new, where, inputs, entry.read)


def _in_container(slot: Slot) -> bool:
    return type(slot) is ItemSlot


def _container_writes(contents: Contents, reads: Reads, visitor: Visitor, kinds: Kinds) -> list[Write]:
    """What was appended, if the call did nothing else to a container; each item that was replaced under its key;
    or all that the container holds now.

    Of a Module's own dict it is each key.
    """
    where = _line_of(reads, visitor, contents.container, contents.where)
    before, now = contents.before, contents.container
    if contents.owner is not None and contents.text.endswith("_hooks"):
        raise SideEffectError(where, f"registers or removes a hook of a module ({contents.text})", MOVE_OUT)
    if not contents.changed():  # what was appended pushed out its like: so only from this content on
        contents.guarded = contents.guarded or contents.appended > 0
        return []
    if isinstance(before, set):
        return [ObjectWrite(ContentSlot(now, None, contents.text), before, list(now), where)]
    added = None if contents.guarded else contents.added()
    if added is not None:
        return [ObjectWrite(EndSlot(now, None, contents.text), None, added, where, (), False)]
    contents.guarded = True
    old, new = (dict(c) if isinstance(before, dict) else dict(enumerate(c)) for c in (before, now))
    if contents.owner is None and list(old) != list(new):
        return [_content_write(contents, reads, where, kinds)]
    writes: list[Write] = []
    for key in {**old, **new}:
        a, b = old.get(key, MISSING), new.get(key, MISSING)
        if a is b:
            continue
        slot = ItemSlot(now, key, f"{contents.text}[{key_text(key)}]")
        real = reads.lifted.get(slot.key, a)
        if contents.owner is None and _is_number(a, kinds) and _is_number(b, kinds):
            writes.append(NumberWrite(slot, real, b, where))
        else:
            writes.append(ObjectWrite(slot, real, b, where, (slot,) if kinds.holds_input(real) else ()))
    return writes


def _content_write(contents: Contents, reads: Reads, where: Location, kinds: Kinds) -> ObjectWrite:
    """The write of a container that has other keys than before."""
    container, before = contents.container, contents.before
    items = before.items() if isinstance(before, dict) else enumerate(before)
    slots = [ItemSlot(container, key, f"{contents.text}[{key_text(key)}]") for key, _ in items]
    inputs = tuple(slot for slot in slots if kinds.holds_input(reads.lifted.get(slot.key, before[slot.name])))
    whole = ContentSlot(container, None, contents.text)
    return ObjectWrite(whole, before, whole.load(), where, inputs)


def _line_of(reads: Reads, visitor: Visitor, container: Any, default: Location) -> Location:
    """The line that changed a container: one whose chain leads to it, else one that changes something unidentified."""
    lines = reads.mutations.get(id(container))
    if lines:
        return lines[0]
    for plan in visitor.codes.values():
        if plan.mutations:
            return Location(plan.file, plan.mutations[0])
    return default
