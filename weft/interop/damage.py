"""What the content of a file may do to its reader: raise (it becomes one ParseError), and ask for work and memory
(which is bounded)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from weft.support.errors import ParseError

# Whatever plain data of the wrong kind, size or depth raises in code that takes it apart.
# (RecursionError and weft's own errors are RuntimeErrors.)
_RAISED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)
_LONGEST = 200  # of a foreign message, or of a name that the content gives


def excerpt(text: object) -> str:
    """What a message quotes of a file's content: its beginning, however much a damaged file holds there."""
    whole_text = str(text)
    return whole_text if len(whole_text) <= _LONGEST else f"{whole_text[:_LONGEST]}..."


@contextlib.contextmanager
def as_parse_error(what: str) -> Iterator[None]:
    """Whatever the content makes this block raise is a ParseError that says `what` is wrong."""
    try:
        yield
    except ParseError:
        raise
    except _RAISED as problem:
        raise ParseError(f"{what}: {type(problem).__name__}: {excerpt(problem)}") from None


def parse_json(text: str | bytes, what: str) -> Any:
    """The value of a JSON text. Raises ParseError, also for nesting and numbers that Python does not take."""
    with as_parse_error(what):
        return json.loads(text)


def whole(value: Any) -> int:
    """A size, stride or offset: a whole number that is not negative and fits 63 bits. Raises ValueError."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(
            f"{str(value)[:40] if isinstance(value, (int, float, str)) else type(value).__name__} is no size, "
            "stride or offset"
        )
    return value
