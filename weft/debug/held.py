"""Which lines made the memory that is held when most is: of tensors, by the user's lines."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import Any

import numpy as np

from weft.runtime.storage import root_of
from weft.support.locations import Mark, located

_NEWS = 1.02  # by how much more memory makes a new peak


class HeldMemory:
    """The memory of tensors as it comes and goes. peak: bytes, at most; at_peak: how many bytes, and how many tensors,
    each line's tensors had then."""

    def __init__(self) -> None:
        self.peak = self._current = 0
        self.at_peak: tuple[Counter[Mark], Counter[Mark]] = Counter(), Counter()
        self._bytes: Counter[Mark] = Counter()
        self._tensors: Counter[Mark] = Counter()
        self._roots: dict[int, weakref.ref[Any]] = {}
        self._lock = threading.RLock()  # an array may die while another is noted

    def note(self, data: Any, mark: Mark | None) -> None:
        """An array that a line has made, if its memory is new."""
        if type(data) is not np.ndarray or mark is None:
            return
        root = root_of(data)
        key, size = id(root), root.nbytes
        if key in self._roots:
            return
        with self._lock:
            self._roots[key] = weakref.ref(root, lambda _: self._died(key, size, mark))
            self._current += size
            self._bytes[mark] += size
            self._tensors[mark] += 1
            if self._current > self.peak * _NEWS:
                self.peak, self.at_peak = self._current, (self._bytes.copy(), self._tensors.copy())

    def _died(self, key: int, size: int, mark: Mark) -> None:
        with self._lock:
            del self._roots[key]
            self._current -= size
            self._bytes[mark] -= size
            self._tensors[mark] -= 1

    def lines(self, most: int) -> list[tuple[str, int, int]]:
        """(line, bytes, tensors) of what held the most at the peak."""
        sizes, counts = Counter[str](), Counter[str]()
        for mark, size in self.at_peak[0].items():
            sizes[str(located(mark))] += size
            counts[str(located(mark))] += self.at_peak[1][mark]
        return [(line, size, counts[line]) for line, size in sizes.most_common(most) if size]
