"""Names that a program asks for and that are not there: the error says what is near, and `--missing` lists them."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from typing import Final

from weft.support.locations import is_internal, user_location

_IMPORT_FROM: Final = "IMPORT_FROM"
asked: dict[tuple[str, str, int], None] = {}  # (name, file, line), in the order in which they were asked for


def note(name: str) -> None:
    """A program asked for `torch.x.y` in vain."""
    where = user_location()
    if where is not None:
        asked.setdefault((name, where.file, where.line))


def text_of(owner: str, name: str, there: Iterable[str], reason: str = "") -> str:
    """The message of the error: what is not there, why, and what is near."""
    names = list(there)
    near = difflib.get_close_matches(name, names, 3) or [n for n in names if n.lower() == name.lower()]
    text = reason or f"module {owner!r} has no attribute {name!r}"
    return f"{text}; near: {', '.join(near)}" if near else text


def is_from_import() -> bool:
    """Whether a program asks for a name by `from module import name`."""
    import dis  # needed where a name is missing, only

    frame = sys._getframe(1)
    while is_internal(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    code = frame.f_code.co_code
    return dis.opname[code[frame.f_lasti]] == _IMPORT_FROM if 0 <= frame.f_lasti < len(code) else False


def report() -> str:
    """All that was asked for in vain, a line each: how often, the name, and the places."""
    places: dict[str, list[str]] = {}
    for name, file, line in asked:
        places.setdefault(name, []).append(f"{file}:{line}")
    if not places:
        return "weft.torch: no name was missing"
    lines = [f"  {name}  {', '.join(where)}" for name, where in sorted(places.items())]
    return "\n".join([f"weft.torch: {len(places)} names were asked for in vain", *lines])
