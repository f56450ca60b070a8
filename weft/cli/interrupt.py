"""Ctrl-C (or SIGTERM) between two steps: the first asks training to stop when the step is done,
the second stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SIGNALLED = 128  # shells give a program that a signal stopped this exit code and the signal's number


class StopRequest:
    """A context in which Ctrl-C sets `asked` in place of raising KeyboardInterrupt, and SIGTERM in place of ending
    the process. Only the main thread can catch signals; elsewhere it does nothing."""

    def __init__(self) -> None:
        self.asked = False
        self.exit_code = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._ask) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked, self.exit_code = True, SIGNALLED + number
        print("\nstopping after this step; Ctrl-C again stops at once, without saving", file=sys.stderr, flush=True)
