"""Interrupts (Ctrl-C) in the middle of what must not be torn: it is brought to its end, and the interrupt
is raised behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def to_the_end(function: Callable[[], T]) -> T:
    """Call a function that may be begun anew, until it has come to its end once;
    an interrupt that came meanwhile is raised then."""
    pending: KeyboardInterrupt | None = None
    while True:
        try:
            result = function()
            break
        except KeyboardInterrupt as interrupt:
            pending = interrupt
    if pending is not None:
        raise pending
    return result
