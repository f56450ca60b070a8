"""What a function changes in the containers that it is given: a program does it in those of each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.guards import Slot
from weft.guards.slots import Key


@dataclass(frozen=True)
class ArgumentPlace:
    """A place in a container among the arguments. path: the numbers of the children that lead to the container; slot:
    the place in the one that the captured call had."""

    path: tuple[int, ...]
    slot: Slot

    @property
    def text(self) -> str:
        """How the user's source would say it."""
        return self.slot.text

    @property
    def name(self) -> Any:
        """Which of the container's places it is."""
        return self.slot.name

    @property
    def holder(self) -> object:
        """The container of the captured call."""
        return self.slot.holder

    @property
    def key(self) -> Key:
        """Equal for the same place in the captured call."""
        return self.slot.key

    def within(self, container: Any) -> Slot:
        """The place in the container of a call."""
        slot = self.slot
        return type(slot)(container, slot.name, slot.text)
