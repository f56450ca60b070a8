"""What kernels note of their times while somebody looks: a table of records that native code fills during one call.

A record is the number of the kernel in its program, the part of it (WHOLE for the launch), the thread of the pool that
ran it (0 is the caller), and the processor's clock before and after.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.address import address_of

# Words of a trace: how many records there would be, how many there is room for; the records begin at FIRST.
COUNT, CAPACITY, FIRST = 0, 1, 2
NUMBER, PART, THREAD, BEGIN, END, RECORD = range(6)
WHOLE = -1
ROOM = 1 << 17  # records of one call; memory is touched as far as they reach


class Trace:
    """The records of one call. `address` goes into the word TRACE of its frame."""

    def __init__(self, room: int = ROOM) -> None:
        memory = np.empty(FIRST + room * RECORD, np.int64)  # (pages come when they are touched)
        self.address = address_of(memory)
        self.words = memory.data
        self._bytes = self.words.cast("B")
        self.words[COUNT], self.words[CAPACITY] = 0, room

    def take(self) -> tuple[bytes, int]:
        """The records so far, as `decoded` reads them; and how many had no room. The trace is empty then."""
        words = self.words
        count = words[COUNT]
        kept = min(count, words[CAPACITY])
        words[COUNT] = 0
        return self._bytes[8 * FIRST : 8 * (FIRST + kept * RECORD)].tobytes(), count - kept


def decoded(records: bytes) -> np.ndarray[Any, Any]:
    """Records of a trace as [count, RECORD], in no order."""
    return np.frombuffer(records, np.int64).reshape(-1, RECORD)


class Clock(NamedTuple):
    """How the processor's clock reads as time.perf_counter_ns does: `start` of the one is `origin` of the other, and a
    tick is so many nanoseconds."""

    start: int
    origin: int
    nanoseconds: float

    def at(self, ticks: Any) -> Any:
        """Nanoseconds of time.perf_counter_ns; numbers or arrays of them."""
        return self.origin + (ticks - self.start) * self.nanoseconds


_MEASURED = 5_000_000  # nanoseconds between the readings that tell how long a tick is: good to one in a thousand
_first: list[tuple[int, int]] = []
_lock = threading.Lock()


def read_clock(ticks: Any) -> Clock:
    """The clock as it reads now. ticks: a function that reads the processor's. The first reading of a process takes
    some milliseconds."""
    with _lock:
        if not _first:
            _first.append(_both(ticks))
            time.sleep(_MEASURED / 1e9)
        start, origin = _both(ticks)
        first, then = _first[0]
        return Clock(start, origin, (origin - then) / (start - first))


def _both(ticks: Any) -> tuple[int, int]:
    """The processor's clock, and the time: of some readings the one that was interrupted least."""
    readings = []
    for _ in range(5):
        before = time.perf_counter_ns()
        now = int(ticks())
        readings.append((time.perf_counter_ns() - before, now, before))
    length, now, before = min(readings)
    return now, before + length // 2
