"""The state of autocast on a thread: whether operators get operands of another precision, and of which.

What casts is an interceptor (layers/autocast.py), which stands above all others; an operator's entry says to what
(`Op.precision`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from weft.support.seams import cast_layer
from weft.tensor.modes import OnTop, modes
from weft.types import dtype as dt
from weft.types.dtype import DType


class Autocast(NamedTuple):
    """What autocast does: `modes.autocast`, where it is not as at the start of a thread."""

    is_enabled: bool
    dtype: DType


START = Autocast(False, dt.bfloat16)


class _Cache(threading.local):
    """The casts of weights while an outermost block runs: by id, the weight, its version, and the cast."""

    is_enabled = True
    nesting = 0

    def __init__(self) -> None:
        self.casts: dict[tuple[int, DType], tuple[Any, int, Any]] = {}


cache = _Cache()


def now() -> Autocast:
    """What holds on this thread."""
    return modes.autocast or START


def switch(state: Autocast | None) -> None:
    """From now on this holds; None: what holds at the start of a thread."""
    state = None if state == START else state
    if modes.autocast == state:
        return
    modes.autocast = state
    others = tuple([entry for entry in modes.special or () if not isinstance(entry, OnTop)])
    on_top = (cast_layer(state.dtype),) if state is not None and state.is_enabled else ()
    modes.special = (*others, *on_top) or None


@contextmanager
def within(state: Autocast | None) -> Iterator[None]:
    """A block in which this holds."""
    before = modes.autocast
    switch(state)
    try:
        yield
    finally:
        switch(before)
