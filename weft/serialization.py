"""weft.serialization: save and load, and PyTorch's list of classes that a file may name. weft.load builds no object of
a class out of a file, whatever the list says; torch.load, under `python -m weft.torch`, builds those that it names."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any

from weft.interop.files import load, save
from weft.tensor.device import Device

__all__ = [
    "FILE_LIKE", "MAP_LOCATION", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals",
    "save",
]
FILE_LIKE = str | os.PathLike[str] | IO[bytes]  # PyTorch's types of arguments, for annotations
MAP_LOCATION = Callable[[Any, str], Any] | Device | str | dict[str, str] | None
Listed = Callable[..., Any] | tuple[Callable[..., Any], str]
_safe: list[Listed] = []


def add_safe_globals(safe_globals: list[Listed]) -> None:
    """List classes or functions (or pairs of one and the name that files have for it)."""
    _safe.extend(value for value in safe_globals if value not in _safe)


def get_safe_globals() -> list[Listed]:
    """What is listed."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Empty the list."""
    _safe.clear()


class safe_globals:
    """A block in which these are listed too."""

    def __init__(self, safe_globals: list[Listed]) -> None:
        self.listed = safe_globals

    def __enter__(self) -> None:
        self.before = get_safe_globals()
        add_safe_globals(self.listed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _safe[:] = self.before
