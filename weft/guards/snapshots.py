"""What was recorded about the state before the call: the value of each slot, the content of each container,
array and generator."""

from __future__ import annotations

import io
import itertools
import operator
from collections import deque
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

import numpy as np

from weft.guards.content_guard import same_array
from weft.guards.slots import Slot
from weft.guards.values import same
from weft.support.locations import Location


@dataclass(eq=False)
class Entry:
    """A slot that was read or that may be written, with its value before the call.
    sure: its holder is known to be older than the call."""

    slot: Slot
    before: Any
    where: Location
    sure: bool
    read: bool = False
    lifted: bool = False
    real: Any = None  # the number that a stand-in replaces, if lifted
    stores: list[Location] = field(default_factory=list)

    def changed(self) -> bool:
        """Whether the slot holds something else now."""
        return not same(self.before, self.slot.get())

    def restore(self) -> None:
        """Put the value from before the call back."""
        if self.changed():
            self.slot.put(self.before)


@dataclass(eq=False)
class Contents:
    """A container older than the call, with a copy of its content. owner: the Module whose own dict it is;
    such writes are the driver's.

    guarded: whether what it holds may have been read. appended: how often `append` was called on it.
    """

    container: Any
    before: Any
    where: Location
    text: str
    guarded: bool = True
    owner: Any = None
    appended: int = 0
    mutations: list[Location] = field(default_factory=list)

    def changed(self) -> bool:
        """Whether it has other keys or other objects in it."""
        now, before = self.container, self.before
        if len(now) != len(before):
            return True
        if isinstance(before, dict):
            return any(map(operator.is_not, now, before)) or any(map(operator.is_not, now.values(), before.values()))
        if isinstance(before, set):
            return bool(now != before)
        return any(map(operator.is_not, now, before))

    def added(self) -> list[Any] | None:
        """What the calls of `append` added, if nothing else was done to it; else None."""
        now, count = list(self.container), self.appended
        if isinstance(self.before, (dict, set)) or not 0 < count <= len(now):
            return None
        kept = len(now) - count
        is_bounded = isinstance(self.container, deque) and self.container.maxlen is not None
        if kept != len(self.before) and not (is_bounded and len(now) == self.container.maxlen):
            return None
        return now[kept:] if all(map(operator.is_, self.before[len(self.before) - kept :], now)) else None

    def restore(self) -> None:
        """Put the content from before the call back."""
        if not self.changed():
            return
        if isinstance(self.before, (dict, set)):
            self.container.clear()
            self.container.update(self.before)
        elif isinstance(self.container, deque):
            self.container.clear()
            self.container.extend(self.before)
        else:
            self.container[:] = self.before


@dataclass(eq=False)
class ArrayContent:
    """A NumPy array older than the call, with a copy."""

    array: Any
    before: Any
    where: Location
    text: str

    def changed(self) -> bool:
        """Whether its bytes are others now."""
        return not same_array(self.array, self.before)

    def restore(self) -> None:
        """Put the bytes back."""
        if self.changed():
            self.array[...] = self.before


@dataclass(eq=False)
class BufferContent(ArrayContent):
    """The same for a bytearray, array.array or memoryview; `before` are its bytes."""

    def changed(self) -> bool:
        return bool(bytes(memoryview(self.array).cast("B")) != self.before)

    def restore(self) -> None:
        if self.changed():
            now = self.array
            now[:] = type(now)(now.typecode, self.before) if hasattr(now, "typecode") else self.before


@dataclass(eq=False)
class RandomState:
    """A NumPy random generator older than the call, with its state."""

    generator: Any
    before: Any
    where: Location
    text: str

    def changed(self) -> bool:
        """Whether numbers were drawn from it."""
        return not _same_state(self.before, state_of(self.generator))

    def restore(self) -> None:
        """Rewind it."""
        if isinstance(self.generator, np.random.RandomState):
            self.generator.set_state(self.before)
        else:
            self.generator.bit_generator.state = self.before


def state_of(generator: Any) -> Any:
    """The state of a NumPy Generator or RandomState."""
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.bit_generator.state


def _same_state(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_state(a[k], b[k]) for k in a)
    return bool(np.array_equal(a, b))


@dataclass(eq=False)
class Drawn:
    """An iterator older than the call, with its position. What was drawn from it cannot be put back."""

    iterator: Any
    before: Any
    where: Location
    text: str

    def changed(self) -> bool:
        """Whether something was taken from it."""
        return bool(position(self.iterator) != self.before)

    def restore(self) -> None:
        """Nothing can be done."""


def position(iterator: Any) -> Any:
    """How far an iterator is, for those that tell without moving; None for the others."""
    if isinstance(iterator, GeneratorType):
        return -2 if iterator.gi_frame is None else iterator.gi_frame.f_lasti
    if isinstance(iterator, (zip, map, enumerate, filter)):
        return [position(part) for part in iterator.__reduce__()[1] if hasattr(type(part), "__next__")]
    if isinstance(iterator, itertools.count):
        return repr(iterator)
    if isinstance(iterator, io.IOBase):
        return _offset(iterator)
    return operator.length_hint(iterator, -1) if hasattr(type(iterator), "__length_hint__") else None


def _offset(file: Any) -> int | None:
    try:
        return int(getattr(file, "buffer", file).tell())
    except (OSError, ValueError):
        return None
