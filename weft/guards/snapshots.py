"""What was recorded about the state before the call: the value of each slot, the content of each container,
array and generator."""

from __future__ import annotations

import inspect
import io
import itertools
import operator
import threading
from collections import deque
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

import numpy as np

from weft.guards.asked import content_of, put_back, same_answer
from weft.guards.content_guard import same_array
from weft.guards.slots import Key, Slot, counted
from weft.guards.values import MISSING, same
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
        return self.is_other(self.slot.get())

    def is_other(self, now: Any) -> bool:
        """Whether a value is something else than was there: a tuple is another one though it is equal."""
        if now is self.before:  # (of a weak proxy whose referent is gone, nothing else can be asked)
            return False
        return isinstance(self.before, tuple) or not same(self.before, now)

    def take_up(self) -> None:
        """Others have put something there: that counts as what was there."""
        self.before = self.slot.get()

    def put_before(self, copy: Any) -> None:
        """Let a copy of the container hold what the item was before the call."""
        name = self.slot.name
        if not self.changed() or (isinstance(copy, list) and not -len(copy) <= name < len(copy)):
            return
        if self.before is not MISSING:
            copy[name] = self.before
        elif isinstance(copy, dict):
            copy.pop(name, None)

    def restore(self) -> None:
        """Put the value from before the call back."""
        if self.changed():
            self.slot.put(self.before)


@dataclass(eq=False)
class Contents:
    """A container older than the call, with a copy of its content. owner: the Module whose own dict it is;
    such writes are the driver's.

    guarded: whether what it holds may have been read; deeply: and what the containers in it hold. appended: how often
    `append` was called on it; is_extended: whether `extend` was.
    """

    container: Any
    before: Any
    where: Location
    text: str
    guarded: bool = True
    owner: Any = None
    deeply: bool = False
    appended: int = 0
    is_extended: bool = False
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
        """What the calls of `append` and `extend` added, if nothing else was done to it; else None."""
        now, count = list(self.container), self.appended
        if self.is_extended:
            count = len(now) - len(self.before)
        if isinstance(self.before, (dict, set)) or not 0 < count <= len(now):
            return None
        kept = len(now) - count
        is_bounded = isinstance(self.container, deque) and self.container.maxlen is not None
        if kept != len(self.before) and not (is_bounded and len(now) == self.container.maxlen):
            return None
        return now[kept:] if all(map(operator.is_, self.before[len(self.before) - kept :], now)) else None

    def take_up(self) -> None:
        """Others have changed what it holds: that counts as what it held."""
        self.before = copied(self.container)

    def restored(self) -> Any:
        """What it holds once `restore` has run, in that order: where the members of a set lie depends on how it was
        filled, too."""
        if not isinstance(self.before, set):
            return self.before
        return list(set(self.before) if self.changed() else self.container)

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
    """The same for a bytearray, array.array, memoryview or value of ctypes; `before` are its bytes."""

    def changed(self) -> bool:
        return bool(memoryview(self.array).tobytes() != self.before)

    def restore(self) -> None:
        if not self.changed():
            return
        now = self.array
        if hasattr(now, "typecode") or isinstance(now, bytearray):  # whose lengths may have changed
            now[:] = type(now)(now.typecode, self.before) if hasattr(now, "typecode") else self.before
            return
        view = memoryview(now)
        if not view.readonly and view.c_contiguous:
            view.cast("B")[:] = self.before


@dataclass(eq=False)
class RandomState:
    """A random generator of Python's or NumPy's older than the call, with its state."""

    generator: Any
    before: Any
    where: Location
    text: str
    is_everybodys: bool = False  # functions without a generator draw from it

    def changed(self) -> bool:
        """Whether numbers were drawn from it."""
        if self.is_everybodys and threading.active_count() > 1:  # others may draw from it meanwhile
            return False
        return not _same_state(self.before, state_of(self.generator))

    def restore(self) -> None:
        """Rewind it."""
        generator = self.generator
        if not self.changed():
            return
        if isinstance(generator, np.random.SeedSequence):
            _spawned_again(generator, self.before["n_children_spawned"])
        elif isinstance(generator, np.random.RandomState):
            generator.set_state(self.before)
        elif isinstance(generator, (np.random.Generator, np.random.BitGenerator)):
            bits = _bits_of(generator)
            bits.state = {key: value for key, value in self.before.items() if key != "spawned"}
            if hasattr(bits, "seed_seq"):
                _spawned_again(bits.seed_seq, self.before["spawned"])
        else:
            generator.setstate(self.before)


def _bits_of(generator: Any) -> Any:
    """The bit generator that a generator of NumPy's is, or draws from."""
    return generator.bit_generator if isinstance(generator, np.random.Generator) else generator


_SEED_FIELDS = ("entropy", "n_children_spawned", "pool", "pool_size", "spawn_key")


def _spawned_again(seeds: Any, count: int) -> None:
    """Let a sequence of seeds be as it was when it had spawned so many: by what pickle is given, for there is no other
    way to say so. (Its fields there stand in the order of their names.)"""
    state = seeds.__reduce__()[2] if isinstance(seeds, np.random.SeedSequence) else None
    if isinstance(state, tuple) and len(state) == len(_SEED_FIELDS):
        fields = dict(zip(_SEED_FIELDS, state, strict=True))
        seeds.__setstate__(tuple((fields | {"n_children_spawned": count}).values()))


def state_of(generator: Any) -> Any:
    """The state of a random generator of Python's, or of one of NumPy's classes."""
    if hasattr(generator, "getstate"):
        try:
            return generator.getstate()
        except NotImplementedError:  # the system's randomness: there is no state to go by, or to put back
            return ()
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    if isinstance(generator, np.random.SeedSequence):
        return generator.state
    bits = _bits_of(generator)
    return {**bits.state, "spawned": getattr(getattr(bits, "seed_seq", None), "n_children_spawned", 0)}


def said_state(generator: Any) -> Any:
    """The same, of plain values that are compared."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return value.tobytes() if isinstance(value, np.ndarray) else value

    return plain(state_of(generator))


def _same_state(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_state(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return bool(a == b)
    return bool(np.array_equal(a, b))


@dataclass(eq=False)
class OpaqueContent:
    """An object written in C older than the call, with what it holds (MISSING: nobody can tell)."""

    value: Any
    before: Any
    where: Location
    text: str

    def changed(self) -> bool:
        """Whether it holds something else now."""
        return self.before is not MISSING and not same_answer(self.before, content_of(self.value))

    def restore(self) -> None:
        """Put back what it held, where its class has a way to be told."""
        if self.before is not MISSING:
            put_back(self.value, self.before)


@dataclass(eq=False)
class Drawn:
    """An iterator older than the call, with its position. What was drawn from it cannot be put back."""

    iterator: Any
    before: Any
    where: Location
    text: str
    used: bool = False

    def changed(self) -> bool:
        """Whether something was taken from it, or may have been."""
        return (self.used and self.before is None) or bool(position(self.iterator) != self.before)

    def restore(self) -> None:
        """Nothing can be done."""


def position(iterator: Any) -> Any:
    """How far an iterator is, for those that tell without moving; None for the others."""
    if isinstance(iterator, GeneratorType):  # within a loop it stands at the same place again and again
        state = inspect.getgeneratorstate(iterator)
        return state if state in (inspect.GEN_CREATED, inspect.GEN_CLOSED) else None
    if isinstance(iterator, (zip, map, enumerate, filter)):
        parts = [position(part) for part in iterator.__reduce__()[1] if hasattr(type(part), "__next__")]
        return None if None in parts else parts
    if isinstance(iterator, itertools.count):
        return repr(iterator)
    if isinstance(iterator, io.IOBase):
        return _offset(iterator)
    hint = operator.length_hint(iterator, -1) if hasattr(type(iterator), "__length_hint__") else -1
    return None if hint < 0 else hint


def _offset(file: Any) -> int | None:
    try:
        return int(getattr(file, "buffer", file).tell())
    except (OSError, ValueError):
        return None


def copied(container: Any) -> Any:
    """What a container holds, as a dict, set or list of its own."""
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def count_from_the_start(entries: dict[Key, Entry], container: Any) -> None:
    """The length of a list is guarded from now on: items counted from the end are counted from the start."""
    for key in [k for k, e in entries.items() if e.slot.holder is container and counted(e.slot) is not e.slot]:
        entry = entries.pop(key)
        entry.slot = counted(entry.slot)
        entries.setdefault(entry.slot.key, entry).read |= entry.read
