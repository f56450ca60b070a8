"""Modules under names that weft has no file for: what they show lies in files of weft's, and is looked up there when
it is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from weft.support.absent import refuse


def in_files(owner: str, name: str, files: Iterable[str]) -> Any:
    """A name from the first of these modules that has it. Raises AttributeError."""
    if not name.startswith("__"):
        for file in files:
            scope = vars(importlib.import_module(file))
            if name in scope:
                return scope[name]
    refuse(f"module {owner!r}", name)


class NamedModule(ModuleType):
    """A module that shows what other modules have: all names of `files`, and single ones by `names` (ours by the name
    that is shown, as "module:attribute")."""

    def __init__(self, name: str, doc: str, files: Iterable[str] = (), names: Mapping[str, str] | None = None) -> None:
        super().__init__(name, doc)
        self.__path__: list[str] = []  # modules below it are found by their names
        self._files, self._names = tuple(files), dict(names or {})

    def __getattr__(self, name: str) -> Any:
        where, _, attribute = vars(self).get("_names", {}).get(name, "").partition(":")
        if where:
            module = importlib.import_module(where)
            return getattr(module, attribute) if attribute else module
        below = sys.modules.get(f"{self.__name__}.{name}")
        return below if below is not None else in_files(self.__name__, name, vars(self).get("_files", ()))

    def __dir__(self) -> list[str]:
        modules = [importlib.import_module(file) for file in self._files]
        shown = {name for module in modules for name in vars(module) if not name.startswith("__")}
        return sorted({*shown, *self._names})


def install(modules: Iterable[NamedModule]) -> None:
    """Let `import` find these modules by their names."""
    for module in modules:
        sys.modules.setdefault(module.__name__, module)
