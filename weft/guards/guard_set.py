"""All guards of a captured program as one generated function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from weft.guards.content_guard import ContainerGuard
from weft.guards.guard import Guard, Miss, Names, ordered
from weft.guards.slots import Slot
from weft.support.generated import function_factory

_FAILED: Final = "(AttributeError, KeyError, IndexError, ValueError, TypeError, ReferenceError)"


class GuardSet:
    """The guards of one observation. `check()` is the cheap question; `first_miss()` says what changed.

    epoch_source: a counter that every write bumps on which guards `by_epoch` hang; while it stands still,
    they are not looked at.
    """

    def __init__(self, guards: Iterable[Guard], epoch_source: Callable[[], int] | None = None) -> None:
        self.guards = list(ordered(list(guards)))
        self.epoch_source = epoch_source

    def __len__(self) -> int:
        return len(self.guards)

    def first_miss(self) -> Miss | None:
        """The first guard that does not hold, or None."""
        return next(self._misses(), None)

    def misses(self) -> list[Miss]:
        """Every guard that does not hold, so that all changed numbers can be lifted in one re-capture."""
        return list(self._misses())

    def without(self, slots: Iterable[Slot] = (), holders: Iterable[object] = ()) -> GuardSet:
        """The set less the guards on these slots or objects, for state that the caller has taken over."""
        keys, ids = {s.key for s in slots}, {id(h) for h in holders}
        kept = [g for g in self.guards if id(g.holder) not in ids and _key(g) not in keys]
        kept = [g.ignoring(keys) if isinstance(g, ContainerGuard) else g for g in kept]
        return GuardSet(kept, self.epoch_source)

    def joined(self, other: GuardSet) -> GuardSet:
        """The guards of both."""
        return GuardSet([*self.guards, *other.guards], self.epoch_source or other.epoch_source)

    def holds_on_to(self) -> Iterator[Any]:
        """The values that must be in their places for the guards to hold."""
        return (value for guard in self.guards for value in guard.holds_on_to())

    def _misses(self) -> Any:
        return (m for g in self.guards for m in g.remedies())

    @functools.cached_property
    def check(self) -> Callable[[], bool]:
        """Whether all guards hold: a function generated when first asked for."""
        names = Names()
        by_epoch = [g.source(names) for g in self.guards if g.by_epoch and self.epoch_source]
        others = [g.source(names) for g in self.guards if not (g.by_epoch and self.epoch_source)]
        lines = ["nonlocal seen"] if by_epoch else []
        lines += ["try:"]
        if by_epoch:
            lines += ["    now = epoch()", "    if now != seen:", f"        if not ({_all(by_epoch)}):"]
            lines += ["            return False", "        seen = now"]
        lines += [f"    return {_all(others)}", f"except {_FAILED}:", "    return False"]
        make = function_factory("guards", ("epoch", "seen"), "check()", lines, names.namespace)
        return make(self.epoch_source, None)  # type: ignore[no-any-return]


def _all(parts: list[str]) -> str:
    return " and ".join(parts) or "True"


def _key(guard: Guard) -> Any:
    slot = getattr(guard, "slot", None)
    return slot.key if isinstance(slot, Slot) else None
