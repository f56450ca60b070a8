"""Floor 11: weft.compile: when a function is recorded, which of its programs serves a call, and what a miss is.

driver.py    weft.compile: the programs of a function, and the choice between them at each call
tracing/     from a call to a program: stand-ins in, the function run once, a graph with results and effects out
program/     a program as it is called: guards, inputs, effects
methods.py   programs of an instance        caches.py    what lru_cache must not keep
Start reading at driver.py.

The package is callable: `weft.compile` is the function weft.compile.api.compile, and stays callable whichever
of the two the name shows.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """Importing any module of this package makes the import system bind `weft.compile` to the package."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from weft.compile.api import compile  # deferred: the package is imported before its modules

        return compile(*args, **kwargs)

    @property
    def __signature__(self) -> Any:
        from inspect import signature  # few programs ask

        from weft.compile.api import compile

        return signature(compile)


sys.modules[__name__].__class__ = _CallableModule
