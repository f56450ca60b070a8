"""Whose code is this: the user's, the standard library's, or the machinery's (weft, NumPy and what they stand on)."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any, Final

from weft.support.locations import PACKAGE, is_internal
from weft.support.naming import own_name

USER: Final = "user"
STDLIB: Final = "stdlib"
INTERNAL: Final = "internal"

_SITES: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_MACHINERY: Final = frozenset({"numpy", "llvmlite", "ml_dtypes", "safetensors"})
_STDLIB: Final = tuple({os.path.abspath(sysconfig.get_path(k)) + os.sep for k in ("stdlib", "platstdlib")})
# the demo's model and step; loaders, whose iterators keep in Python where they are
_LIKE_USERS: Final = tuple(os.path.join(PACKAGE, *part.split("/")) + os.sep for part in ("cli", "utils/data"))
MADE_BY_COLLECTIONS: Final = "namedtuple_"  # the module in which the constructor of a named tuple stands


class Origins:
    """Files by owner, remembered. `users` are path prefixes inside weft that count as the user's."""

    def __init__(self, users: tuple[str, ...] = _LIKE_USERS) -> None:
        self.users = users
        self._files: dict[str, str] = {}
        self._modules: dict[str, str] = {}

    def of_file(self, filename: str) -> str:
        """USER, STDLIB or INTERNAL for the file name of a code object; source without a file (exec, notebooks)
        is the user's."""
        owner = self._files.get(filename)
        if owner is None:
            owner = self._files[filename] = self._judge(filename)
        return owner

    def of_module(self, name: str | None) -> str:
        """The owner of the module of that name; a module without a file that Python did not build in is the user's."""
        owner = self._modules.get(name or "")
        if owner is None:
            owner = self._modules[name or ""] = self._judge_module(name or "")
        return owner

    def of_scope(self, scope: Mapping[str, Any]) -> str:
        """The owner of globals: of the module that they name, unless another module has the name."""
        name = scope.get("__name__")
        name = name if isinstance(name, str) else ""
        is_others = getattr(sys.modules.get(name), "__dict__", scope) is not scope and scope.get("__spec__") is None
        return USER if is_others else self.of_module(name)

    def of_class(self, cls: type) -> str:
        """The owner of the module of a class; one made in C may have no name there, but a member of its objects."""
        name: object = cls.__module__
        return self.of_module(name) if isinstance(name, str) else STDLIB

    def _judge_module(self, name: str) -> str:
        if name in sys.builtin_module_names or name.startswith(MADE_BY_COLLECTIONS):
            return STDLIB
        file = getattr(sys.modules.get(own_name(name)), "__file__", None)
        if isinstance(file, str):
            return self.of_file(file)
        return STDLIB if name != "__main__" and name.partition(".")[0] in sys.stdlib_module_names else USER

    def _judge(self, filename: str) -> str:
        if filename.startswith("<frozen"):
            return STDLIB
        if filename.startswith(self.users):
            return USER
        if is_internal(filename):
            return INTERNAL
        for site in _SITES:
            _, separator, rest = filename.partition(site)
            if separator:
                return INTERNAL if rest.split(os.sep)[0].removesuffix(".py") in _MACHINERY else USER
        return STDLIB if filename.startswith(_STDLIB) else USER
