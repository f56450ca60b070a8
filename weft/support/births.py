"""Which objects are older than a block in which Python's garbage collector rests.

Python lists young objects in the order in which they were made, and nothing grows old while the collector rests: what
stands behind a mark in that list was made since the mark was.
"""

from __future__ import annotations

import gc
from typing import Any


class Births:
    """The objects made since `begin`, by identity, as far as they have been looked at."""

    def __init__(self) -> None:
        self._mark: list[None] | None = None
        self._made: set[int] = set()  # (an identity that is used again is another young object's)

    def begin(self) -> None:
        """The block begins: the collector rests from now on."""
        self._mark, self._made = [], set()

    def end(self) -> None:
        """The block is over; nothing is remembered."""
        self._mark, self._made = None, set()

    def is_older(self, value: Any) -> bool | None:
        """Whether an object was there when the block began; None where nobody can tell, as after a collection."""
        if id(value) in self._made:
            return False
        if self._mark is None or not gc.is_tracked(value):
            return None
        young = gc.get_objects(generation=0)
        last, ids = self._mark, []
        while young:
            each = young.pop()
            if each is last:
                break
            ids.append(id(each))
        else:
            return None
        self._made.update(ids)
        self._mark = []
        return id(value) not in self._made
