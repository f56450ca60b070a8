"""What programs took from outside of them as constants, looked at again when Python calls them."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator
from typing import Any

from weft.jit.program import Program

Names = Callable[[str], "tuple[Any] | None"]
_PLAIN = (bool, int, float, complex, str, type(None))


class Outside:
    """A name and what it stood for: numbers, texts and containers of them by value, other objects by identity."""

    def __init__(self, names: Names, name: str, value: Any) -> None:
        self.names, self.name = names, name
        self.by_value = _is_plain(value)
        self.value = copy.deepcopy(value) if self.by_value else value

    def has_changed(self) -> bool:
        """Whether the name stands for something else now."""
        current = self.names(self.name)
        if current is None or not self.by_value:
            return current is None or current[0] is not self.value
        return type(current[0]) is not type(self.value) or not (current[0] is self.value or current[0] == self.value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return type(value) in _PLAIN


def note(program: Program, names: Names, name: str, value: Any) -> None:
    """Remember what a name stands for. What is in a module is read from the module, and not looked at again."""
    if program.outside is not None and not isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
        program.outside.append(Outside(names, name, value))


def forget_if_changed(program: Program) -> bool:
    """Whether anything that a program, or one that it calls, took from outside has changed; then none of these is used
    for new programs any more.
    """
    if program.whole is None:
        program.whole = tuple(_reached(program, set()))
    if not any(o.has_changed() for p in program.whole for o in p.outside or ()):
        return False
    for one in program.whole:
        if one.forget is not None:
            one.forget()
    return True


def _reached(program: Program, seen: set[int]) -> Iterator[Program]:
    if id(program) not in seen:
        seen.add(id(program))
        yield program
        for callee in program.functions.values():
            yield from _reached(callee, seen)
