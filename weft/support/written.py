"""Functions that are written as text and compiled: what would be asked in a loop on each call stands in their lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
