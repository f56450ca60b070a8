"""Python functions that weft generates: what would be asked again on each call stands in their lines.

The one place where text becomes Python code. Each text is a file of its own, `<weft LABEL NUMBER>`, that `linecache`
knows: tracebacks show its lines, and a debugger steps through them. WEFT_DEBUG=code prints each text when it is made.
"""

from __future__ import annotations

import linecache
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from weft.support import limits
from weft.support.knobs import knobs


class FunctionWriter:
    """A function that is being generated: its lines, and the constants that they name. Functions of the same lines are
    compiled once, whatever their constants."""

    def __init__(self, label: str, head: str, **named: Any) -> None:
        """label: what the function is, for tracebacks. head: `name(parameters)`. named: constants that have names of
        their own."""
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
        make = _shared_factory(self.label, tuple(self._names), self.head, "\n".join(self.lines))
        return make(*self._constants)  # type: ignore[no-any-return]


def function_factory(
    label: str, free: Sequence[str], head: str, lines: Sequence[str], scope: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """What makes the function `def {head}: {lines}` from the values of its `free` names.

    label: what the function is, for tracebacks. scope: other names in the code, with their values.
    """
    name = head.split("(")[0]
    body = "".join(f"        {line}\n" for line in lines)
    source = f"def make({', '.join(free)}):\n    def {head}:\n{body}    return {name}\n"
    namespace = dict(scope or {})
    exec(_code(label, source, "exec"), namespace)
    return namespace["make"]  # type: ignore[no-any-return]


def expression_function(
    label: str, parameters: Sequence[str], text: str, scope: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The function `lambda {parameters}: {text}`. scope: other names in the text, with their values."""
    code = _code(label, f"lambda {', '.join(parameters)}: {text}", "eval")
    return eval(code, dict(scope or {}))  # type: ignore[no-any-return]


_shared_factory = lru_cache(maxsize=limits.GENERATED_TEXTS)(
    lambda label, names, head, text: function_factory(label, names, head, text.split("\n"))
)
_codes: OrderedDict[tuple[str, str, str], CodeType] = OrderedDict()
_numbers: dict[str, int] = {}


def _code(label: str, source: str, mode: str) -> CodeType:
    """The code of a text, compiled when it is met for the first time."""
    key = (label, source, mode)
    code = _codes.get(key)
    if code is None:
        _numbers[label] = number = _numbers.get(label, 0) + 1
        filename = f"<weft {label} {number}>"
        code = _codes[key] = compile(source, filename, mode)
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        while len(_codes) > limits.GENERATED_TEXTS:
            linecache.cache.pop(_codes.popitem(last=False)[1].co_filename, None)
        if "code" in knobs.debug:
            print(f"---- {filename}\n{source}", file=sys.stderr)
    return code
