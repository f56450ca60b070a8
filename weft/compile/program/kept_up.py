"""The assignments of a call, each made once, wherever an interrupt cuts them off."""

from __future__ import annotations

from typing import Any

from weft.guards import ObjectWrite
from weft.guards.slots import EndSlot, Slot


class KeptUp:
    """writes: those that are made. What is stored twice is as if it were stored once, but for what is added to the end
    of a list: `begun` says which that was, and how the list ended before."""

    def __init__(self) -> None:
        self.writes: list[ObjectWrite] = []
        self.begun: tuple[int, tuple[int, Any]] | None = None

    def put(self, write: ObjectWrite, place: Slot, value: Any) -> None:
        """Make an assignment, the next one."""
        if not (isinstance(place, EndSlot) and self._is_made(place)):
            place.put(value)
        self.writes.append(write)

    def _is_made(self, place: EndSlot) -> bool:
        """Whether it was before an interrupt. Else it is about to be."""
        number = len(self.writes)
        if self.begun is None or self.begun[0] != number:
            self.begun = number, _end_of(place.holder)
            return False
        length, last = _end_of(place.holder)
        return length != self.begun[1][0] or last is not self.begun[1][1]


NOTHING_KEPT_UP = KeptUp()  # of calls that assign nothing


def _end_of(holder: Any) -> tuple[int, Any]:
    return len(holder), (holder[-1] if holder else None)
