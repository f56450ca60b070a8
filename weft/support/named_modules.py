"""Modules under names that weft has no file for: what they show lies in files of weft's, and is looked up there when
it is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

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
        self._files, self._names = tuple(files), dict(names or {})

    def __getattr__(self, name: str) -> Any:
        answers = vars(self).get("__getattr__")  # of who shows it under another name
        return self.lookup(name) if answers is None else answers(name)

    def lookup(self, name: str) -> Any:
        """A name of the module. Raises AttributeError."""
        where, _, attribute = vars(self).get("_names", {}).get(name, "").partition(":")
        if where:
            return getattr(importlib.import_module(where), attribute)
        if f"{self.__name__}.{name}" in _Finder.modules:
            return importlib.import_module(f"{self.__name__}.{name}")
        return in_files(self.__name__, name, vars(self).get("_files", ()))

    def __dir__(self) -> list[str]:
        modules = [importlib.import_module(file) for file in self._files]
        shown = {name for module in modules for name in vars(module) if not name.startswith("__")}
        return sorted({*shown, *self._names})


class _Finder:
    """Finds these modules for `import`, behind Python's own finders."""

    modules: ClassVar[dict[str, NamedModule]] = {}

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """What importlib is to make, if it is one of them."""
        return ModuleSpec(name, cls, is_package=True) if name in cls.modules else None  # type: ignore[arg-type]

    @classmethod
    def create_module(cls, spec: ModuleSpec) -> NamedModule:
        """The module."""
        return cls.modules[spec.name]

    @classmethod
    def exec_module(cls, module: ModuleType) -> None:
        """Put its classes into its namespace: programs walk through vars(torch.nn.modules.activation)."""
        for file in vars(module).get("_files", ()):
            for name, value in vars(importlib.import_module(file)).items():
                if isinstance(value, type) and not name.startswith("__"):
                    vars(module).setdefault(name, value)


def install(modules: Iterable[NamedModule]) -> None:
    """Let `import` find these modules by their names."""
    _Finder.modules.update({module.__name__: module for module in modules})
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
