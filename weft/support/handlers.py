"""Whether the user's code waits for an exception where it calls an operator: then what the operator raises has to come
out there.
"""

from __future__ import annotations

import dis
import opcode
import sys
from functools import lru_cache
from types import CodeType
from typing import Final

from weft.support import limits
from weft.support.locations import is_internal

_ENTER, _WITH = [opcode.opmap.get(name, 0) for name in ("PUSH_EXC_INFO", "WITH_EXCEPT_START")]
# Python 3.10, whose code has instructions that open and close handlers in place of a table
_TRY: Final = "SETUP_FINALLY"
_OPENS: Final = (_TRY, "SETUP_WITH", "SETUP_ASYNC_WITH")
_CLOSES: Final = ("POP_BLOCK", "POP_EXCEPT")
_LEAVES: Final = ("JUMP_FORWARD", "JUMP_ABSOLUTE", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE")

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


@lru_cache(maxsize=limits.RESULTS)
def _is_tried(code: CodeType, at: int) -> bool:
    if not _ENTER:
        return _TRY in _open_handlers(code).get(at, ())
    table = _table(code)
    places: list[int] = []
    while at not in places:  # the table names the innermost handler: one that lets exceptions pass lies in an outer one
        places.append(at)
        for start, end, target in table:
            if start <= at < end:
                if _catches(code, target):
                    return True
                at = target
                break
    return False


def _catches(code: CodeType, target: int) -> bool:
    """Whether a handler belongs to a `try`: that of a `with` block lets exceptions pass."""
    handler = code.co_code[target : target + 8 : 2]
    return _ENTER in handler[:1] and _WITH not in handler


@lru_cache(maxsize=limits.HANDLERS)
def _open_handlers(code: CodeType) -> dict[int, tuple[str, ...]]:
    """By the place of each instruction that can be reached, the instructions that opened the handlers around it
    (Python 3.10). Within a handler stands "" for it."""
    instructions = list(dis.get_instructions(code))
    position = {ins.offset: i for i, ins in enumerate(instructions)}
    jumps = {*dis.hasjrel, *dis.hasjabs}
    around: dict[int, tuple[str, ...]] = {}
    pending: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    while pending:
        i, handlers = pending.pop()
        if i >= len(instructions) or instructions[i].offset in around:
            continue
        ins = instructions[i]
        around[ins.offset] = handlers
        opens = ins.opname in _OPENS
        if ins.opcode in jumps:
            pending.append((position[ins.argval], (*handlers, "") if opens else handlers))
        if opens:
            handlers = (*handlers, ins.opname)
        elif ins.opname in _CLOSES:
            handlers = handlers[:-1]
        if ins.opname not in _LEAVES:
            pending.append((i + 1, handlers))
    return around


def _table(code: CodeType) -> list[tuple[int, int, int]]:
    """Where each handler begins, and which instructions are under it.
    Source: CPython, Objects/exception_handling_notes.txt."""
    handlers, values, number = [], [], 0
    for byte in getattr(code, "co_exceptiontable", b""):
        number = number << 6 | byte & 63
        if not byte & 64:
            values.append(2 * number)
            number = 0
    for start, length, target, _ in zip(*[iter(values)] * 4, strict=True):
        handlers.append((start, start + length, target))
    return handlers
