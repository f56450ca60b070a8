"""The arena: one piece of memory in which everything lives that does not leave a program.
It is kept between calls and only grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.runtime.address import address_of
from weft.support.counters import counters

ALIGNMENT = 64


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
