"""The arena: one piece of memory in which everything lives that does not leave a program.
It is kept between calls and only grows. Where many programs run one after the other, they take turns with one arena."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.runtime.address import address_of
from weft.support.counters import counters

ALIGNMENT = 64
SPARE = 4  # arenas that are kept for whoever comes next


class Arena:
    """Memory of at least `size` bytes at a 64-byte boundary. `memory` is the array of its bytes,
    `address` where it starts."""

    __slots__ = ("address", "memory", "size")

    def __init__(self) -> None:
        self.size = 0
        self.memory: np.ndarray[Any, np.dtype[np.uint8]] = np.empty(0, np.uint8)
        self.address = 0

    def reserve(self, size: int) -> bool:
        """Have room for `size` bytes; True if the memory moved (what was in it is lost)."""
        if size <= self.size:
            return False
        whole = np.empty(size + ALIGNMENT, np.uint8)
        start = -address_of(whole) % ALIGNMENT
        self.memory = whole[start : start + size]
        self.address = address_of(whole) + start
        self.size = size
        counters.allocations += 1
        return True

    def tensor(
        self, offset: int, dtype: np.dtype[Any], dims: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> np.ndarray[Any, Any]:
        """The bytes at `offset` as an array; strides in bytes, None for row-major."""
        view: np.ndarray[Any, Any] = np.ndarray(dims, dtype, buffer=self.memory, offset=offset, strides=strides)
        return view


_spare: list[Arena] = []


def borrow() -> Arena:
    """An arena for the time of a call, to be given back: the one that was used last, or a new one."""
    try:
        return _spare.pop()  # atomic: no two threads get the same one
    except IndexError:
        return Arena()


def give_back(arena: Arena) -> None:
    """Let others use an arena that was borrowed."""
    if len(_spare) < SPARE:
        _spare.append(arena)
