"""The user's functions behind hooks and custom Functions: their code, what they name, and what they hold."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from weft.guards.rewrite import original
from weft.support.locations import is_internal

_MOST_FUNCTIONS = 256
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type, ModuleType)


def plain_function(function: Any) -> FunctionType | None:
    """The function behind a callable: through methods, partials and objects with `__call__`; None for anything else."""
    while not isinstance(function, FunctionType):
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif isinstance(function, type) or not isinstance(type(function).__dict__.get("__call__"), FunctionType):
            return None
        else:
            function = type(function).__dict__["__call__"]
    inner = getattr(function, "__wrapped__", None)  # weft's own wrappers are no code of the user's
    return plain_function(inner) if inner is not None and is_internal(function.__code__.co_filename) else function


def is_called(hook: Any, codes: Sequence[CodeType]) -> bool:
    """Whether the code of a hook or rule is among these."""
    function = plain_function(hook)
    return function is not None and any(original(function.__code__) is original(code) for code in codes)


def reachable(called: list[Any]) -> Iterator[FunctionType]:
    """The user's functions behind callables, and those that they name."""
    pending, seen = list(called), set[int]()
    while pending and len(seen) < _MOST_FUNCTIONS:
        function = plain_function(pending.pop())
        if function is None or id(function) in seen or is_internal(function.__code__.co_filename):
            continue
        seen.add(id(function))
        yield function
        names = function.__code__.co_names
        pending += [function.__globals__[name] for name in names if name in function.__globals__]
        pending += _cells(function)


def is_same_at_each_call(hook: Any, is_older: Callable[[Any], bool]) -> bool:
    """Whether a hook that a function has made is the same at each of its calls: what it holds are numbers, text,
    functions of this kind, or objects that were there before. is_older: whether one was."""
    pending, seen = [hook], set[int]()
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, _PLAIN) or is_older(value):
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):
            pending += [*_cells(value), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        elif isinstance(value, functools.partial):
            pending += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, MethodType):
            pending += [value.__func__, value.__self__]
        elif isinstance(value, tuple):
            pending += value
        else:
            return False
    return True


def _cells(function: FunctionType) -> list[Any]:
    contents = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            contents.append(cell.cell_contents)
    return contents
