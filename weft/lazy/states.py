"""The states of traces: what was called since the last cut, but for sizes and numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from weft.support.locations import Mark, is_internal
from weft.types.tensor_type import TensorType


class Point(NamedTuple):
    """Where a trace stands: its state, how often it was cut, and how many entries, inputs, and calls without an entry
    there are since.
    """

    state: State
    epoch: int
    entries: int
    inputs: int
    passed: int


class InlineCaches:
    """How something came behind a state: a few ways. passes: how often it came another way."""

    __slots__ = ("caches", "passes")

    def __init__(self) -> None:
        self.caches: list[Callable[..., Any]] = []
        self.passes = 0


NO_CACHES: dict[Any, InlineCaches] = {}  # of most states: nothing is put there
NOTHING: dict[Any, Any] = {}  # the same


class State:
    """What was called since the cut. after: the state that follows, by the structure of the call. programs: for what is
    wanted of the trace, the programs that give it. met: by what came next, how it looked and what was recorded for it
    (rules.py). replayed: of what was recorded, where its operands came from the last time, and the state that followed.
    inline: by the operator that came next, the caches of how it came (inline/).
    """

    __slots__ = (
        "after", "code", "depth", "finds", "inline", "is_symbolic", "known", "met", "programs", "replayed", "same",
        "types",
    )

    def __init__(self) -> None:
        self.after: dict[Any, State] = {}
        self.programs: dict[Any, Any] = {}
        self.met = self.replayed = NOTHING
        self.inline = NO_CACHES
        # of the call that led here: arguments as its type rule saw them last, and what it said
        self.known: list[Any] | None = None
        self.types: tuple[TensorType, ...] = ()
        self.is_symbolic = False  # whether sizes hang on values
        self.finds = False  # and on which, the operator says
        self.same: int | None = None  # the argument that its result is
        self.code: CodeType | None = None  # of the user, and how many frames lay above it
        self.depth = 0

    def mark(self, depth: int) -> Mark | None:
        """The user's line that made the call: where it was the last time, unless other code stands there."""
        try:
            frame = sys._getframe(self.depth + depth)
        except ValueError:
            frame = None
        if frame is not None and frame.f_code is self.code:
            return self.code, frame.f_lasti
        self.code, self.depth, frame = None, 0, sys._getframe(depth)
        while frame is not None:
            if not is_internal(frame.f_code.co_filename):
                self.code = frame.f_code
                return self.code, frame.f_lasti
            self.depth += 1
            frame = frame.f_back
        return None
