"""What a program may ask of the compiled function that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any, Protocol

from weft.compile.assumptions import Assumptions
from weft.guards import Switch
from weft.ir.value_numbers import ValueNumbers
from weft.programs.store import Variants


class Owner(Protocol):
    """A compiled function, as its programs know it. entries: its programs; value_numbers: of what they compute; lock:
    held while they or what it assumes change."""

    entries: Variants[Any]
    value_numbers: ValueNumbers
    assumptions: Assumptions
    lock: RLock

    def keep(self, entry: Any) -> None:
        """Let calls that follow run a program."""

    def give_up(self, entry: Any, why: str) -> None:
        """Run calls like those of a program as they are written from now on."""

    def capture_within(
        self, entry: Any, leaves: list[Any], switches: Sequence[Switch], kept: frozenset[int]
    ) -> Any:
        """A program for a call that is on its way in another one; None if there is none."""
