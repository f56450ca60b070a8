"""Whether the user's code waits for an exception where it calls an operator: then what the operator raises has to come
out there.
"""

from __future__ import annotations

import opcode
import sys
from functools import lru_cache
from types import CodeType

from weft.support.locations import is_internal

# (before Python 3.11 code has no table of handlers: whether it has any is all that is asked then)
_ENTER, _WITH, _SETUP = [opcode.opmap.get(name, 0) for name in ("PUSH_EXC_INFO", "WITH_EXCEPT_START", "SETUP_FINALLY")]


outermost: set[CodeType] = set()  # of functions from whose callers exceptions come too late anyway


def is_watched() -> bool:
    """Whether a `try` of the user's is open on this thread, within the call of an outermost function."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code in outermost:
            return False
        if not is_internal(code.co_filename) and _is_tried(code, frame.f_lasti):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


@lru_cache(maxsize=4096)
def _is_tried(code: CodeType, at: int) -> bool:
    if not _ENTER:
        return _SETUP in code.co_code[::2]
    return any(start <= at < end and _catches(code, target) for start, end, target in _table(code))


def _catches(code: CodeType, target: int) -> bool:
    """Whether a handler belongs to a `try`: that of a `with` block lets exceptions pass."""
    handler = code.co_code[target : target + 8 : 2]
    return _ENTER in handler[:1] and _WITH not in handler


def _table(code: CodeType) -> list[tuple[int, int, int]]:
    """Where each handler begins, and which instructions are under it.
    Source: CPython, Objects/exception_handling_notes.txt."""
    found, values, number = [], [], 0
    for byte in getattr(code, "co_exceptiontable", b""):
        number = number << 6 | byte & 63
        if not byte & 64:
            values.append(2 * number)
            number = 0
    for start, length, target, _ in zip(*[iter(values)] * 4, strict=True):
        found.append((start, start + length, target))
    return found
