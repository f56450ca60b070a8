"""Overloads: one function of Python's that is compiled for several signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DECLARED: dict[str, list[Callable[..., Any]]] = {}


def _key(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def overload(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a signature of the function of this name that is defined behind it."""
    declared = _DECLARED.setdefault(_key(function), [])
    if declared and declared[-1].__code__.co_firstlineno >= function.__code__.co_firstlineno:
        declared.clear()  # the same definitions, run again
    declared.append(function)
    return function


def overloads_of(function: Any) -> list[Callable[..., Any]]:
    """The signatures that were declared for a function; none for most."""
    found = _DECLARED.get(_key(function), []) if hasattr(function, "__qualname__") else []
    return [] if function in found else found
