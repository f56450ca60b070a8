"""Blocks of memory that become larger or smaller, and who has to know: what shows the old bytes shows the new ones."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any

import numpy as np

from weft.runtime.address import address_of
from weft.support.errors import StateError

Array = np.ndarray[Any, Any]


NOT_RESIZABLE = "Trying to resize storage that is not resizable"


def everything_of(kind: type) -> Iterator[Any]:
    """All objects of a class that the garbage collector knows. Raises StateError where it does not see some."""
    if gc.get_freeze_count():
        raise StateError(f"{NOT_RESIZABLE}: gc.freeze() hides who shows it; call gc.unfreeze() first")
    objects, kinds = gc.get_objects(), frozenset(_with_subclasses(kind))
    # a million are looked at: none by Python's loops
    return compress(objects, map(kinds.__contains__, map(type, objects)))


def _with_subclasses(kind: type) -> Iterator[type]:
    below_it: list[type] = kind.__subclasses__()
    yield kind
    for below in below_it:
        yield from _with_subclasses(below)


def holders(*held: object) -> list[Any]:
    """The objects that hold one of these in an attribute, which the garbage collector finds: nobody pays for being
    found until memory moves."""
    referrers = gc.get_referrers(*held)
    dicts = {id(x): x for x in referrers if type(x) is dict}
    owners = gc.get_referrers(*dicts.values()) if dicts else []
    return [*referrers, *[x for x in owners if id(getattr(x, "__dict__", None)) in dicts]]


class Move:
    """Bytes that were at one place and are at another, maybe with more or fewer behind them."""

    __slots__ = ("_known", "before", "memory")

    def __init__(self, before: Array, memory: Array) -> None:
        self.before, self.memory = before, memory
        self._known: dict[int, tuple[Any, Any]] = {}

    def once(self, shown: Any, make: Callable[[Any], Any]) -> Any:
        """What is made of something that shows the old bytes: the same thing for all who hold it."""
        entry = self._known.get(id(shown))
        if entry is None:
            entry = self._known[id(shown)] = shown, make(shown)
        return entry[1]

    def place_of(self, array: Array) -> int:
        """Where an array over the old bytes begins in them."""
        return address_of(array) - address_of(self.before) if array.size else 0
