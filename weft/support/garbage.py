"""Holding back Python's garbage collector while a graph grows: it would walk all of it again and again, and find nothing."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Hold:
    """Who holds collection back in this process; a forked child begins with a new one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.was_enabled = False

    def take(self) -> None:
        with self.lock:
            if not self.holders:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.holders += 1

    def let_go(self) -> None:
        with self.lock:
            self.holders -= 1
            if not self.holders and self.was_enabled:
                gc.enable()


_current = [_Hold()]


@contextmanager
def collection_held() -> Iterator[None]:
    """No automatic collection within the block, in any thread; afterwards it is on if it was. Blocks may nest, and overlap between threads."""
    hold = _current[0]
    hold.take()
    try:
        yield
    finally:
        hold.let_go()


def _after_fork_in_child() -> None:
    """The parent's other threads, which may have held it, are not there to let go."""
    before, _current[0] = _current[0], _Hold()
    if before.holders and before.was_enabled:
        gc.enable()
    before.holders = 0
    before.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
