"""Python's math module, `len`, `int`, `float`, `max` and `min` in code that is traced: numbers of the program stay so.

The traced function has them from the beginning (record/numbers/lifted_math.py). Other code that it calls is known by a
number that it makes plain: the trace begins again with that code too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from weft.guards.rewrite import Substitutes
from weft.record.numbers.lifted_math import CODES, FUNCTIONS, LENGTHS, QUESTIONS, code_that_loads, lifted_in

R = TypeVar("R")
_MOST_CODES: Final = 64


class _Again(BaseException):
    """The trace begins again: more code takes numbers of the program. (Code that catches Exception lets it pass.)"""


class _Lifted(threading.local):
    def __init__(self) -> None:
        self.codes: list[CodeType] | None = None


_lifted = _Lifted()


def note_conversion(frame: FrameType) -> None:
    """A number of the program becomes Python's on this frame, perhaps by a function of math's, `int` or `float`."""
    _note(frame, FUNCTIONS)


def note_length(frame: FrameType) -> None:
    """The length of a tensor is asked for on this frame, perhaps by `len`."""
    _note(frame, LENGTHS)


def asking_frame(frame: FrameType) -> FrameType:
    """The frame of the code that loads what stands for Python's functions, where it is these that ask."""
    while frame.f_code in CODES and frame.f_back is not None:
        frame = frame.f_back
    return frame


def note_question(frame: FrameType) -> None:
    """Numbers of the program are compared on this frame, perhaps by `max` or `min`."""
    _note(frame, QUESTIONS)


def _note(frame: FrameType, substitutes: Substitutes) -> None:
    codes = _lifted.codes
    code = code_that_loads(frame, substitutes, codes) if codes is not None and len(codes) < _MOST_CODES else None
    if codes is not None and code is not None:
        codes.append(code)
        raise _Again


def with_lifted_numbers(function: Any, record: Callable[[], R]) -> R:
    """What is recorded of a function, with its code taking numbers of the program where it asks for Python's."""
    outer, _lifted.codes = _lifted.codes, []
    try:
        while True:
            try:
                with lifted_in(function, _lifted.codes):
                    return record()
            except _Again:
                continue
    finally:
        _lifted.codes = outer
