"""Source locations: the user's line behind an operator call."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from weft.support import limits

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # weft's folder


class _Internal(dict[str, bool]):
    """The answers of `is_internal`."""

    def __missing__(self, filename: str) -> bool:
        answer = self[filename] = filename.startswith((PACKAGE, "<weft")) or filename == contextlib.__file__
        return answer


class _Nowhere(dict[str, bool]):
    """Files whose lines are no place of the user's: weft's, and those of Python's own start (`<frozen runpy>`)."""

    def __missing__(self, filename: str) -> bool:
        answer = self[filename] = _INTERNAL[filename] or filename.startswith("<frozen ")
        return answer


_INTERNAL = _Internal()
_NOWHERE = _Nowhere()


class Location(NamedTuple):
    """A line of source, and the column where it is known (counted from 1). Prints as `train.py:12`."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


def lines_text(lines: Iterable[Location]) -> str:
    """`train.py:3, 7, model.py:2`."""
    numbers: dict[str, set[int]] = {}
    for line in lines:
        numbers.setdefault(line.file, set()).add(line.line)
    return ", ".join(f"{os.path.basename(file)}:{', '.join(map(str, sorted(n)))}" for file, n in numbers.items())


def is_internal(filename: str) -> bool:
    """Whether a code object's file belongs to weft itself, or to what runs the blocks of its `with` statements."""
    return _INTERNAL[filename]


Mark = tuple[CodeType, int]


def user_mark(depth: int = 1) -> Mark | None:
    """The innermost frame outside weft as (code, instruction): cheap enough to keep for every node;
    `located` turns it into a line."""
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if not _NOWHERE[code.co_filename]:
            return (code, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def located(mark: Mark | None) -> Location | None:
    """The line of a mark."""
    return None if mark is None else _line_of(*mark)


@lru_cache(maxsize=limits.RESULTS)
def _line_of(code: CodeType, at: int) -> Location:
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= at < end and number is not None:
            line = number
    return Location(code.co_filename, line)


def user_location(depth: int = 1) -> Location | None:
    """The innermost frame outside weft, or None when every frame is ours."""
    frame = sys._getframe(depth)
    while frame is not None:
        if not _NOWHERE[frame.f_code.co_filename]:
            return Location(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None
