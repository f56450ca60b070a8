"""One run of a program, watched: the times of its segments, and what its kernels noted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from weft.runtime.segments import TRACE
from weft.runtime.trace import Trace, decoded

now = time.perf_counter_ns
_idle: list[Trace] = []  # that nobody writes to; threads take and give back whole ones


class WatchedRun:
    """A run that has begun. What began it is told of its end by `ended(run, begin, end)`, in nanoseconds.

    segments: (begin, end) of each. dropped: how many records had no room.
    sizes: of the program's symbols.
    """

    __slots__ = ("_begin", "_ended", "_frame", "_records", "_trace", "dropped", "program", "segments", "sizes")

    def __init__(self, program: Any, frame: Any, ended: Callable[[WatchedRun, int, int], None]) -> None:
        self._trace = _idle.pop() if _idle else Trace()
        self._ended, self._frame, self.program = ended, frame, program
        self.segments: list[tuple[int, int]] = []
        self._records = b""
        self.dropped = 0
        self.sizes: tuple[int, ...] = ()
        frame.watch, frame.words[TRACE] = self, self._trace.address
        self._begin = now()

    @property
    def records(self) -> Any:
        """What its kernels noted, [count, RECORD] (runtime/trace.py)."""
        return decoded(self._records)

    def around(self, segments: tuple[Any, ...]) -> Iterator[Any]:
        """The segments, one after another, timed."""
        for segment in segments:
            begin = now()
            yield segment
            self.segments.append((begin, now()))

    def end(self) -> None:
        """The run is over."""
        end = now()
        frame = self._frame
        frame.watch, frame.words[TRACE] = None, 0
        self._records, self.dropped = self._trace.take()
        layout = frame.layout
        self.sizes = tuple(frame.words[layout.symbol_word : layout.symbol_word + len(layout.symbols)])
        _idle.append(self._trace)
        self._frame = None
        self._ended(self, self._begin, end)
