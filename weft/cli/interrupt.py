"""Ctrl-C between two steps: the first asks training to stop when the step is done, the second stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """A context in which Ctrl-C sets `asked` in place of raising KeyboardInterrupt. Only the main thread can catch signals;
    elsewhere it does nothing."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print("\nstopping after this step; Ctrl-C again stops at once, without saving", file=sys.stderr, flush=True)
