"""Calls of operators one by one, as a capture runs them where nothing is predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from weft.ops.op import Op
from weft.tensor.capture import InPlace

Run = Callable[[Op, tuple[Any, ...]], Any]


class EachCall:
    """What tensor/capture.py says of RepeatedCalls. has_recorded: whether a loop has recorded
    something since the latest call began; loops: how many loops were; kept: memory that shows results of loops, which
    keep them for their backward."""

    def __init__(self) -> None:
        self.call: tuple[Op | InPlace, tuple[Any, ...]] | None = None
        self.predicted: Iterable[Any] = ()
        self.has_recorded = False
        self.loops = 0
        self.kept: set[Any] = set()

    def run(self, function: Run, op: Op, args: tuple[Any, ...]) -> Any:
        """Run a call of an operator that was not predicted."""
        return function(op, args)

    def write(self, function: Run, op: Op, args: tuple[Any, ...]) -> Any:
        """Run an in-place operator that was not predicted."""
        return function(op, args)

    def over(self, size: Any, frame: FrameType, item: Any, make: Callable[[int], Any]) -> Iterator[Any] | None:
        """What a `for` statement goes over that may go on for other sizes; None where it is one of so many
        iterations."""
        return None

    @property
    def is_over_size(self) -> bool:
        """Whether a loop is going on that may go on for other sizes."""
        return False

    def may_change(self, size: Any) -> bool:
        """Whether calls may bring other values of a size, for which a loop over it goes on."""
        return False

    def finish(self) -> None:
        """The function has ended."""
        self.end()

    def abandon(self) -> None:
        """Nothing more is recorded."""

    def end(self) -> None:
        """What follows is not a predicted call."""

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Within the block calls are not the function's own, or may not be predicted."""
        yield
