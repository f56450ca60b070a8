"""Logs: lists and deques that a function only adds to. One program adds to whichever a place holds at a call."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, Final

from weft.guards.content_guard import ContainerGuard
from weft.guards.guard import Guard, Miss, Names, SlotGuard
from weft.guards.guard_set import GuardSet
from weft.guards.kinds import Kinds
from weft.guards.slots import EndSlot, Key, Slot
from weft.guards.writes import Write, ids_in

LOGS: Final = (list, deque)


class LogsGuard(Guard):
    """Each of some places holds a log of the type that was there: another one than the other places, and none that the
    program knows otherwise. What it holds, and which one it is, nobody has asked."""

    remedy = "give each log a list of its own, which nothing else of the function reads"

    def __init__(self, guards: Sequence[SlotGuard], others: Iterable[Any]) -> None:
        self.slots, self.logs = [g.slot for g in guards], [g.expected for g in guards]
        self.where, self.text = guards[0].where, ", ".join(slot.text for slot in self.slots)
        self._others = {id(other): other for other in others}

    def source(self, names: Names) -> str:
        return f"{names.variable(self.holds)}()"

    def holds(self) -> bool:
        """Identity first; other logs are those that are compared first from then on."""
        now = [slot.get() for slot in self.slots]
        if all(map(is_, now, self.logs)):
            return True
        if any([type(new) is not type(old) for new, old in zip(now, self.logs, strict=True)]):
            return False
        ids = set(map(id, now))
        if len(ids) < len(now) or not ids.isdisjoint(self._others):
            return False
        self.logs = now
        return True

    def miss(self) -> Miss | None:
        if self.holds():
            return None
        now = [slot.get() for slot in self.slots]
        return Miss(self.where, self.text, self.logs, now, remedy=self.remedy)


def followed(
    guards: GuardSet, writes: Sequence[Write], result: Any, others: Iterable[Any], kinds: Kinds
) -> tuple[GuardSet, Mapping[int, Slot]]:
    """The guards with another one for logs that may be replaced, and the places of these logs, by identity: those that
    one place leads to, that no other guard is on, and that the call leaves where they are.

    result: what the call returns; others: containers that it is given.
    """
    ends = {id(w.target.holder): w.target.holder for w in writes if type(w.target) is EndSlot}
    if not ends:
        return guards, {}
    kept = ids_in([result, [w.value for w in writes]], kinds)
    rest = {id(w.target.holder) for w in writes if type(w.target) is not EndSlot}
    argument_types = {type(other) for other in others}  # one of these could be the log of a later call
    logs = {
        key: log for key, log in ends.items()
        if type(log) in LOGS and type(log) not in argument_types and key not in rest and key not in kept
    }
    places = _places(guards.guards, logs, {w.target.key for w in writes}) if logs else {}
    if not places:
        return guards, {}
    slots = {key: guard.slot for key, guard in places.items()}
    left = guards.without(slots.values())
    elsewhere = [log for guard in left.guards for log in _logs_of(guard)]
    elsewhere += [log for key, log in ends.items() if key not in places]
    return left.joined(GuardSet([LogsGuard([*places.values()], elsewhere)])), slots


def _places(guards: Iterable[Guard], logs: Mapping[int, Any], written: Container[Key]) -> dict[int, SlotGuard]:
    """The guards on the only places that lead to some of these logs."""
    places: dict[int, SlotGuard] = {}
    reached = set()  # in another way
    for guard in guards:
        if type(guard) is SlotGuard and id(guard.expected) in logs:
            key = id(guard.expected)
            if key in places or guard.lifted or guard.slot.key in written:
                reached.add(key)
            places[key] = guard
    own = {guard.slot.key for guard in places.values()}
    for guard in guards:
        if type(guard) is ContainerGuard:  # that a place is in may be guarded too, but for that place
            guard = guard.ignoring(own)
        if guard not in places.values():
            reached |= {id(log) for log in _logs_of(guard)}
    return {key: guard for key, guard in places.items() if key not in reached}


def _logs_of(guard: Guard) -> Iterator[Any]:
    """The lists and deques that a guard is on, or that must be where it looks."""
    pending = [guard.holder, *guard.holds_on_to()]
    while pending:
        value = pending.pop()
        if type(value) in LOGS:
            yield value
        elif type(value) is tuple:
            pending += value
