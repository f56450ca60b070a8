"""Functions that are written as text and compiled: what would be asked in a loop on each call stands in their lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any


def written(
    label: str, free: Sequence[str], head: str, lines: Sequence[str], scope: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """What makes the function `def {head}: {lines}` from the values of its `free` names.

    label: what the code is, for tracebacks ("<weft label>"). scope: other names in the code, with their values.
    """
    name = head.split("(")[0]
    body = "".join(f"        {line}\n" for line in lines)
    source = f"def make({', '.join(free)}):\n    def {head}:\n{body}    return {name}\n"
    names = dict(scope or {})
    exec(compile(source, f"<weft {label}>", "exec"), names)
    return names["make"]  # type: ignore[no-any-return]


class Code:
    """Lines of a function that is being written, and the constants in them. Functions of the same lines are compiled
    once, whatever their constants."""

    def __init__(self, label: str, head: str, **named: Any) -> None:
        """named: constants that have names of their own; for label and head see `written`."""
        self.label, self.head = label, head
        self.lines: list[str] = []
        self._names, self._constants = list(named), list(named.values())

    def name(self, constant: Any) -> str:
        """The name of a constant in the lines."""
        name = f"x{len(self._names)}"
        self._names.append(name)
        self._constants.append(constant)
        return name

    def function(self) -> Callable[..., Any]:
        """The function."""
        make = _compiled(self.label, tuple(self._names), self.head, "\n".join(self.lines))
        return make(*self._constants)  # type: ignore[no-any-return]


@lru_cache(maxsize=8192)
def _compiled(label: str, names: tuple[str, ...], head: str, text: str) -> Callable[..., Any]:
    return written(label, names, head, text.split("\n"))
