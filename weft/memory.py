"""weft.memory: bytes held by tensors' storages and by programs' arenas, now and at most.

Counting begins with the first call of any of these functions, with what is held then, and goes on until `stop()`.
Meanwhile every tensor that takes new memory is noted, which makes small operators about a third slower; while nobody
counts, it costs nothing. A storage counts once, however many tensors show it, from when a tensor or a program has it
until nobody does. Not counted: what a kernel allocates for itself, and memory that only NumPy arrays hold.

    weft.memory.reset_peak()
    loss.backward()
    print(weft.memory.peak() - weft.memory.current(), "bytes more than now, at most")
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.autograd.saved import SavedTensor
from weft.runtime.arena import Arena
from weft.runtime.frame import Frame
from weft.runtime.storage import Storage, root_of
from weft.tensor.tensor import Tensor

__all__ = ["current", "is_counting", "peak", "reset_peak", "stop"]


class _Held:
    """The arrays that own counted memory, by identity, each until it dies."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._lock = threading.RLock()  # an array may die while another is noted
        self.current = self.peak = 0

    def note(self, value: object) -> None:
        """Count the memory of an array, if it is one and is not counted yet."""
        if type(value) is not np.ndarray:
            return
        root = root_of(value)
        key = id(root)
        if key in self._known:
            return
        with self._lock:
            self._known[key] = (weakref.ref(root, lambda _: self._died(key)), root.nbytes)
            self.current += root.nbytes
            self.peak = max(self.peak, self.current)

    def _died(self, key: int) -> None:
        with self._lock:
            self.current -= self._known.pop(key)[1]


class _WatchedData:
    """Tensor._data while memory is counted: an array that becomes a tensor's is noted."""

    def __init__(self, slot: Any, held: _Held) -> None:
        self.get, self.set, self.held = slot.__get__, slot.__set__, held

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        return self if tensor is None else self.get(tensor, kind)

    def __set__(self, tensor: Any, value: Any) -> None:
        self.set(tensor, value)
        self.held.note(value)


class _Counting:
    """Counting while it is on: the places where memory comes to be are watched in their classes."""

    def __init__(self) -> None:
        self.held: _Held | None = None
        self._watched: list[tuple[Any, str, Any]] = []
        self._lock = threading.Lock()

    def on(self) -> _Held:
        """Count, if nobody does yet."""
        with self._lock:
            if self.held is None:
                self.held = held = _Held()
                self._watch(Tensor, "_data", _WatchedData(Tensor.__dict__["_data"], held))
                self._watch(Frame, "hold", _watched_hold(Frame.hold, held))
                self._watch(Arena, "reserve", _watched_reserve(Arena.reserve, held))
                for array in _arrays_alive():
                    held.note(array)
            return self.held

    def off(self) -> None:
        """Count no more."""
        with self._lock:
            for owner, name, before in self._watched:
                setattr(owner, name, before)
            self._watched, self.held = [], None

    def _watch(self, owner: Any, name: str, watched: Any) -> None:
        self._watched.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, watched)


_counting = _Counting()


def _watched_hold(hold: Any, held: _Held) -> Any:
    def watched(self: Frame, root: int, value: Any) -> None:
        held.note(value)
        hold(self, root, value)

    return watched


def _watched_reserve(reserve: Any, held: _Held) -> Any:
    def watched(self: Arena, size: int) -> bool:
        moved: bool = reserve(self, size)
        if moved:
            held.note(self.memory)
        return moved

    return watched


def _arrays_alive() -> Iterator[object]:
    """The arrays behind everything that holds memory now."""
    for holder in gc.get_objects():
        kind = type(holder)
        if issubclass(kind, Tensor):
            yield getattr(holder, "_data", None)
        elif kind is SavedTensor:
            yield getattr(holder, "payload", None)
        elif issubclass(kind, Storage):
            yield holder.array
        elif kind is Arena:
            yield holder.memory


def current() -> int:
    """Bytes that are held now."""
    return _counting.on().current


def peak() -> int:
    """The most bytes that were held at once since `reset_peak()`, or since counting began."""
    return _counting.on().peak


def reset_peak() -> None:
    """Let `peak()` begin anew, with what is held now."""
    held = _counting.on()
    held.peak = held.current


def is_counting() -> bool:
    """Whether somebody has asked since the last `stop()`."""
    return _counting.held is not None


def stop() -> None:
    """Count no more, until another function of this module is called."""
    _counting.off()
