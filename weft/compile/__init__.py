"""Floor 8: the only place where the two columns meet: capture, driver, executables.

symbolic.py   tensors whose value is a graph value: storage, path, functional writes     capture.py   the mode that records
state.py      concrete storages as inputs                                              gradients.py  .grad while capturing
lifted.py     numbers as inputs, numbers.py their arithmetic                            recording.py one capture from start to end
blocks/        cond, while_loop, and gradients through them
eager/         large arrays in eager mode by native programs
driver.py     weft.compile: entries and calls; entry.py one program with its guards     executable.py running a graph on a back end
methods.py    programs of an instance; live_programs.py code that captures share        caches.py    what lru_cache must not keep
Start reading at driver.py.

The package is callable: `weft.compile` is the function weft.compile.api.compile, and stays callable whichever of the two the name shows.
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


sys.modules[__name__].__class__ = _CallableModule
