"""Holding back Python's garbage collector while a graph grows: it would walk all of it again and again, for nothing.

Afterwards it would walk all of it once more, as the young objects that they are: a second for a program of 50,000
operators. They are made old instead, so that they are looked at when old objects are.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 100_000  # young objects, whose walk would be noticed
FROZEN_AT_START = 1000  # CPython 3.12 itself freezes some hundred objects; what a user freezes are thousands
IN_A_ROW = 3  # times that young objects are made old unseen before the collector has walked the old ones


class _Hold:
    """Who holds collection back in this process; a forked child begins with a new one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # (a signal handler may hold it back, too)
        self.holders = 0
        self.was_enabled = False
        self.aged, self.walks = 0, 0

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
                self._age()
                gc.enable()

    def _age(self) -> None:
        """Make young objects old, if there are many.

        Cycles among them that nobody holds wait for the next walk of old ones, so that must not be put off for ever.
        """
        if gc.get_count()[0] < MANY or gc.get_freeze_count() > FROZEN_AT_START:  # what users freeze would be thawed
            return
        walks = gc.get_stats()[2]["collections"]
        self.aged, self.walks = (1 if walks != self.walks else self.aged + 1), walks
        if self.aged <= IN_A_ROW:
            gc.freeze()
            gc.unfreeze()


_current = [_Hold()]


@contextmanager
def collection_held() -> Iterator[None]:
    """No automatic collection within the block, in any thread; afterwards it is on if it was.
    Blocks may nest, and overlap between threads."""
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
    before.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
