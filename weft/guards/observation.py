"""Observing one call: run it under the profile hook, then turn what was read into guards and what was
written into writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from types import CodeType
from typing import Any

from weft.guards.asides import StepAside
from weft.guards.asked import content_of
from weft.guards.content_guard import ArrayGuard, BufferGuard, ContainerGuard, TupleIdentityGuard
from weft.guards.effects import SideEffectError
from weft.guards.frame_watcher import FrameWatcher
from weft.guards.guard import AbsentGuard, AbsentNamesGuard, Guard, ShadowGuard, SlotGuard
from weft.guards.guard_set import GuardSet
from weft.guards.hidden_guard import AnswerGuard, CacheGuard, ReferenceGuard, RegistrationGuard
from weft.guards.kinds import Kind, Kinds
from weft.guards.lifting import Substitution
from weft.guards.reads import Reads
from weft.guards.slots import AttributeSlot, Key, Slot, WeakAttributeSlot, instance_dict
from weft.guards.snapshots import BufferContent, Drawn, OpaqueContent, position
from weft.guards.values import MISSING, same
from weft.guards.visit import Visitor
from weft.guards.watching import unwatched
from weft.guards.writes import Write, drop_fresh, writes_of
from weft.support.interrupts import to_the_end
from weft.support.reachable import reachable


class Observation:
    """One recorded call. guards: what the program relies on; writes: what it must write back;
    rollback(): undo the call's writes.

    The guards are on the values before the call, also of what was written: a counter that the step changes misses next
    time and is lifted, a flag that it sets is seen set. State that the caller takes over (a rebound tensor) is taken
    out with `guards.without(slots=...)`.
    is_older(x): whether an object existed before the call, for certain.
    """

    def __init__(
        self, reads: Reads, visitor: Visitor, writes: list[Write], epoch_source: Callable[[], int] | None
    ) -> None:
        self._reads, self._visitor = reads, visitor
        self.writes = writes
        self.guards = GuardSet(_guards(reads, {w.target.key for w in writes}), epoch_source)

    def rollback(self) -> None:
        """Put every slot and container that was seen back to its value before the call."""
        _rollback(self._reads)

    def is_older(self, value: object) -> bool:
        """Whether a chain of reads led to the object: it was there before the call."""
        entries = self._reads.entries.values()
        return self._reads.is_known(value) or any([e.sure and e.before is value for e in entries])

    @property
    def leaves(self) -> list[Any]:
        """The objects of kind LEAF that were read from older state, or stand in it."""
        return list(self._reads.leaves.values())

    @property
    def names_of_leaves(self) -> set[str]:
        """The attributes that were looked up on tensors of the call's own."""
        return self._reads.names_of_leaves

    @property
    def asks_identity(self) -> bool:
        """Whether code that ran asks which of two objects one is."""
        return self._reads.asks_identity

    @property
    def asks_id(self) -> bool:
        """Whether code that ran calls id() or hash()."""
        return self._reads.asks_id

    @property
    def codes_asking_types(self) -> list[CodeType]:
        """The user's code that ran and asks for the type of anything but `self`."""
        return [plan.code for plan in self._visitor.codes.values() if plan.asks_type]

    def may_call(self, methods: Iterable[str]) -> bool:
        """Whether code that ran names one of these methods or properties of tensors."""
        return any((id(cls), name) in self._reads.classes for cls in self._reads.kinds.leaves for name in methods)

    @property
    def lifted(self) -> list[Slot]:
        """The slots that held stand-ins and were read."""
        return [e.slot for e in self._reads.entries.values() if e.lifted]

    def substitute(self, stand_ins: Iterable[tuple[Slot, Any]]) -> Substitution:
        """Stand-ins for numbers, for the next observation; see Substitution."""
        return Substitution(stand_ins)


class Midway:
    """What is known of Python's state while the function still runs."""

    def __init__(self, watcher: FrameWatcher) -> None:
        self._watcher = watcher

    def has_written(self) -> bool:
        """Whether the function has changed anything older than the call."""
        try:
            return bool(self.writes())
        except SideEffectError:
            return True

    def writes(self) -> dict[Key, Write]:
        """What the function has changed of objects older than the call, by place. Raises SideEffectError for what a
        program cannot repeat."""
        reads = self._watcher.reads
        writes = unwatched(writes_of, reads, self._watcher.visitor, self._watcher.kinds)
        return {write.target.key: write for write in writes if id(write.target.holder) not in reads.tentative}

    def first_write_since(self, before: dict[Key, Write]) -> Write | None:
        """A place that holds something else now than when `before` was asked for; None if there is none."""
        for key, write in self.writes().items():
            earlier = before.get(key)
            if earlier is None or not _leave_the_same(earlier.value, write.value):
                return write
        return None

    def is_older(self, value: object) -> bool:
        """Whether an object existed before the call, for certain."""
        return self._watcher.reads.is_known(value)

    def leads_to(self, value: object) -> bool:
        """Whether the function has come upon an object, or upon one whose attributes lead to it: a scheduler has its
        optimizer."""
        reads = self._watcher.reads

        def inside(held: Any) -> list[Any]:
            if isinstance(held, dict):
                return list(held.values())
            if isinstance(held, (list, tuple)):
                return list(held)
            return list(instance_dict(held).values()) if reads.kinds.of(held) is Kind.INSTANCE else []

        if reads.is_known(value):
            return True
        instances = [k for k in reads.known.values() if reads.kinds.of(k) is Kind.INSTANCE]
        return any(met is value for met in reachable(instances, inside))

    def take_up(self, slot: Slot) -> None:
        """Others have put something into a slot: that counts as what was there."""
        reads = self._watcher.reads
        for snapshot in (reads.entries.get(slot.key), reads.containers.get(id(slot.holder))):
            if snapshot is not None:
                snapshot.take_up()


def _leave_the_same(a: Any, b: Any) -> bool:
    """Whether two writes of a place left the same there; of a container its items are compared."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_leave_the_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(map(_leave_the_same, a.values(), b.values()))
    return same(a, b)


def observe(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    kinds: Kinds | None = None,
    substitution: Substitution | None = None,
    epoch_source: Callable[[], int] | None = None,
    at_end: Callable[[Iterable[object]], None] | None = None, tell: Iterable[Callable[[Midway], None]] = (),
    step_aside: StepAside = nullcontext, is_strict: bool = False,
) -> tuple[Any, Observation]:
    """Call `fn` once and record it. An exception of `fn`, or SideEffectError, leaves the Python state
    as it was before the call.

    at_end: called with the objects that the code which ran has met, however the call ends. tell: each called first,
    with what can be asked while `fn` runs. step_aside: within such a block code runs as if nothing were captured
    (asides.py). is_strict: refuse whatever could not be put back, or be compared at the next call, before it happens:
    somebody else runs the call then.
    """
    watcher = FrameWatcher(kinds, substitution.real if substitution else None, step_aside, is_strict)
    for listener in tell:
        listener(Midway(watcher))
    named = dict(kwargs or {})
    watcher.start(fn, args, named)
    if substitution is not None:
        watcher.exempt(substitution.stand_ins)
    def end() -> None:
        if at_end is not None:
            at_end([*watcher.reads.known.values(), *(guard.raw for guard in watcher.reads.classes.values())])

    try:
        with watcher:
            result = fn(*args, **named)
        refusal = watcher.refusal or watcher.reads.refused
        if refusal is not None:
            raise refusal
        drop_fresh(watcher.reads, result, watcher.kinds)
        writes = writes_of(watcher.reads, watcher.visitor, watcher.kinds)
        end()
        # (within: an interrupt may come here too)
        observation = Observation(watcher.reads, watcher.visitor, writes, epoch_source)
    except BaseException:
        to_the_end(lambda: _rollback(watcher.reads))
        end()
        _let_go(watcher.reads)
        raise
    return result, observation


def _rollback(reads: Reads) -> None:
    reads.note_new_names()
    groups: tuple[dict[Any, Any], ...] = (
        reads.containers, reads.entries, reads.arrays, reads.randoms, reads.opaques
    )
    for group in groups:  # (what else changed is refused)
        for snapshot in reversed(group.values()):  # what was seen later may stand in what was changed before
            snapshot.restore()


def _let_go(reads: Reads) -> None:
    """Hold nothing of the user's any more: of a call that failed, which may run again as Python and count references,
    other objects are left that know one another until the next collection."""
    for name in ("entries", "items", "containers", "leaves", "known", "tentative", "fresh"):
        getattr(reads, name).clear()


def _weakened(slot: Slot, reads: Reads) -> Slot:
    """A slot whose holder only a weak reference led to, seen through that reference."""
    reference = reads.weak.get(id(slot.holder))
    return (
        WeakAttributeSlot(reference, slot.name, slot.text) if reference is not None and type(slot) is AttributeSlot
        else slot
    )


def _content_guard(content: OpaqueContent) -> AnswerGuard:
    value = content.value
    return AnswerGuard(partial(content_of, value), value, content.where, f"content of {content.text}")


def _position_guard(drawn: Drawn) -> AnswerGuard:
    iterator = drawn.iterator
    return AnswerGuard(partial(position, iterator), iterator, drawn.where, f"position of {drawn.text}")


def _guards(reads: Reads, written: set[Key]) -> list[Guard]:
    kinds = reads.kinds
    guards: list[Guard] = []
    for entry in reads.entries.values():
        # a write of what was there already
        is_kept = bool(entry.stores) and entry.before is not MISSING and entry.slot.key not in written
        if not (entry.read or is_kept) or kinds.of(entry.before) is Kind.OWN:
            continue
        slot = _weakened(entry.slot, reads)
        if entry.before is MISSING:
            guards.append(AbsentGuard(slot, entry.where, kinds))
        elif entry.lifted:
            guards.append(SlotGuard(slot, entry.real, entry.where, kinds, lifted=True))
        elif kinds.of(entry.before) is not Kind.SYMBOL:
            guards.append(SlotGuard(slot, entry.before, entry.where, kinds))
        elif (number := kinds.number_of(entry.before)) is not None:
            guards.append(SlotGuard(slot, number, entry.where, kinds))
    guards += [
        *reads.types.values(), *reads.classes.values(), *reads.functions.values(), *reads.said.values(),
        *reads.orders.values(),
    ]
    guards += [AbsentNamesGuard(cls, names) for cls, names in reads.absent.items()]
    guards += [CacheGuard(cache, where, text) for cache, where, text in reads.caches.values()]
    guards += [ReferenceGuard(*each) for each in reads.references.values()]
    guards += [RegistrationGuard(*each) for each in reads.registries.values()]
    guards += reads.keys.values()
    guards += [guard for guard in reads.answers.values() if guard.is_steady]
    guards += [_content_guard(each) for each in reads.opaques.values() if each.before is not MISSING]
    guards += [_position_guard(each) for each in reads.drawn.values() if each.used]
    guards += [ShadowGuard(scope, names) for scope, names in reads.shadows.values()]
    for held in reads.containers.values():
        if held.guarded:
            guard = ContainerGuard(held.container, held.restored(), held.where, held.text, kinds, reads.lifted)
            guard.is_module_dict = held.owner is not None
            guard.by_epoch = isinstance(held.owner, kinds.by_epoch)
            guards.append(guard)
    for held_array in reads.arrays.values():
        if id(held_array.array) not in reads.exempt:
            if isinstance(held_array, BufferContent):
                guards.append(BufferGuard(held_array.array, held_array.before, held_array.where, held_array.text))
                continue
            guards.append(ArrayGuard(held_array.array, held_array.before, held_array.where, held_array.text))
    return [*guards, *TupleIdentityGuard.over(guards)] if reads.asks_identity else guards
