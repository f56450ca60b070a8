"""Source locations: the user's line behind an operator call."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_KNOWN: dict[str, bool] = {}


class Location(NamedTuple):
    """A line of source. Prints as `train.py:12`."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


def is_internal(filename: str) -> bool:
    """Whether a code object's file belongs to weft itself."""
    known = _KNOWN.get(filename)
    if known is None:
        known = _KNOWN[filename] = filename.startswith(_HERE) or filename.startswith("<weft")
    return known


def user_location(depth: int = 1) -> Location | None:
    """The innermost frame outside weft, or None when every frame is ours."""
    frame = sys._getframe(depth)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_internal(filename):
            return Location(filename, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None
