"""Calls that are made whole: an operator that writes state behind what it saves for its backward does all of it, also
where a checkpoint's second run has got what it wanted, and would end it in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Running(threading.local):
    depth = 0
    ending: BaseException | None = None  # what ends the run once the outermost call is through


_running = _Running()


@contextmanager
def undivided() -> Iterator[None]:
    """What is to end in this thread ends behind the block, unless an error ends it."""
    _running.depth += 1
    ending: BaseException | None = None
    try:
        yield
    finally:
        _running.depth -= 1
        if not _running.depth:
            ending, _running.ending = _running.ending, None
    if ending is not None:
        raise ending


def end_with(error: BaseException) -> None:
    """Raise an error that ends a run on purpose, as soon as the call that is under way is whole."""
    if not _running.depth:
        raise error
    _running.ending = error
