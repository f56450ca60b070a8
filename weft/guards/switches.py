"""Places in Python's state that change while a program is on its way, by code that it calls: the function is captured
with what was there before up to the call, and with what is there since after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from weft.guards.content_guard import ContainerGuard
from weft.guards.guard import AbsentGuard, Guard, SlotGuard
from weft.guards.guard_set import GuardSet
from weft.guards.kinds import Kinds
from weft.guards.slots import ContentSlot, Slot
from weft.guards.values import MISSING, same
from weft.support.interrupts import to_the_end
from weft.support.locations import Location


@dataclass(frozen=True, eq=False)
class Switch:
    """After call number `call` a slot holds something else (MISSING: nothing)."""

    call: int
    slot: Slot
    old: Any
    new: Any


def switches_in(guards: GuardSet, call: int) -> list[Switch] | None:
    """What has changed of that on which guards are; None where that is no slot and no content of a container."""
    switches = []
    for guard in guards.guards:
        if not guard.misses():
            continue
        if isinstance(guard, ContainerGuard) and guard.is_module_dict:
            changes = list(guard.changes())
            if any(key is None for key, _, _ in changes):
                return None
            switches += [Switch(call, guard.slot(key), old, new) for key, old, new in changes]
        elif isinstance(guard, ContainerGuard) and not guard.lifted:
            slot = ContentSlot(guard.holder, None, guard.text)
            switches.append(Switch(call, slot, guard.content, slot.get()))
        elif isinstance(guard, (SlotGuard, AbsentGuard)):
            switches.append(Switch(call, guard.slot, getattr(guard, "expected", MISSING), guard.slot.get()))
        else:
            return None
    return switches


@contextmanager
def before(switches: Sequence[Switch]) -> Iterator[None]:
    """Within the block the slots hold, to begin with, what they held first; afterwards what they hold now."""
    first = {s.slot.key: s for s in reversed(switches)}
    now = [(s.slot, s.slot.get()) for s in first.values()]
    try:
        for switch in first.values():
            switch.slot.put(switch.old)
        yield
    finally:
        to_the_end(lambda: _put(now))


def _put(values: list[tuple[Slot, Any]]) -> None:
    for slot, value in values:
        slot.put(value)


def at_the_start(guards: GuardSet, switches: Sequence[Switch], kinds: Kinds) -> GuardSet:
    """The guards of a program before its first call."""
    if not switches:
        return guards
    first = {s.slot.key: s for s in reversed(switches)}
    where = Location("<compiled function>", 0)
    own = [_guard(s, where, kinds) for s in first.values()]
    rest = _without(guards, switches)
    return GuardSet([*rest.guards, *own], guards.epoch_source)


def after(guards: GuardSet, switches: Sequence[Switch], call: int) -> tuple[GuardSet, Callable[[], bool]]:
    """The guards after a call, and whether they and the slots that are switched at some call are as they should be."""
    held = held_after(switches, call)
    if not held:
        return guards, guards.check
    rest = _without(guards, held)
    return rest, lambda: rest.check() and not any(map(has_moved, held))


def held_after(switches: Sequence[Switch], call: int) -> list[Switch]:
    """For each slot that is switched at some call, what it holds after this one, as a switch to that: what the latest
    put there, or what was there before the next."""
    held = {s.slot.key: Switch(s.call, s.slot, s.old, s.old) for s in reversed(switches) if s.call > call}
    held.update((s.slot.key, s) for s in switches if s.call <= call)
    return list(held.values())


def has_moved(switch: Switch) -> bool:
    """Whether a slot holds something else than the switch put there."""
    now = switch.slot.get()
    if not isinstance(switch.slot, ContentSlot):
        return not same(switch.new, now)
    pairs = (list(content.items()) if isinstance(content, dict) else content for content in (switch.new, now))
    before, after = pairs
    return len(before) != len(after) or not all(map(same, before, after))


def _guard(switch: Switch, where: Location, kinds: Kinds) -> Guard:
    slot, old = switch.slot, switch.old
    if isinstance(slot, ContentSlot):
        return ContainerGuard(slot.holder, old, where, slot.text, kinds, {})
    return AbsentGuard(slot, where, kinds) if old is MISSING else SlotGuard(slot, old, where, kinds)


def _without(guards: GuardSet, switches: Sequence[Switch]) -> GuardSet:
    contents = [s.slot.holder for s in switches if isinstance(s.slot, ContentSlot)]
    return guards.without([s.slot for s in switches], contents)
