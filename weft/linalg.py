"""weft.linalg: linear algebra. Each function is the operator `aten::linalg_<name>`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weft.layers.operator_namespaces import OperatorNamespace
from weft.support.errors import LinAlgError  # noqa: F401  (shown here)

_functions = OperatorNamespace("linalg", globals())


_ARRAY_API = ("matrix_transpose", "outer", "tensordot", "trace")  # the standard's names, without operators of their own


def __getattr__(name: str) -> Any:
    if name in _ARRAY_API:
        function = globals()[name] = getattr(import_module("weft.layers.array_api"), name)
        return function
    return _functions.find(name)


def __dir__() -> list[str]:
    return sorted({*_functions.names(), *_ARRAY_API})
