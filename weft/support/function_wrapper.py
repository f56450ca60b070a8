"""What `weft.compile` gives for a function: an object that is called in its place and has its attributes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class FunctionWrapper:
    """Stands for a function: its name, docstring and, for what the wrapper has not itself, its attributes."""

    def __init__(self, function: Callable[..., Any], name: str | None, backend: str | None) -> None:
        # attributes of the user's are looked up there, not copied: a module or function may have any names
        wrapper: Any = self
        functools.update_wrapper(wrapper, function, updated=())
        self.function, self.backend = function, backend
        self.name = str(name or getattr(function, "__name__", type(function).__name__))

    @property
    def is_under_its_name(self) -> bool:
        """Whether its module, if that is loaded, has this object under its name: it is pickled by that then."""
        value: Any = sys.modules.get(self.__module__)
        for part in getattr(self, "__qualname__", "").split("."):
            value = getattr(value, part, None)
        return value is self

    def __prepare_scriptable__(self) -> Any:
        """What `weft.jit.script` compiles: the function."""
        return self.function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "function" not in self.__dict__:  # protocols are the wrapper's; or it is being made
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.function, name)
