"""weft.linalg: linear algebra. Each function is the operator `aten::linalg_<name>`."""

from __future__ import annotations

from typing import Any

from weft.catalogue.linalg.square import LinAlgError  # noqa: F401  (shown here)
from weft.layers.operator_namespaces import OperatorNamespace

_functions = OperatorNamespace("linalg", globals())


def __getattr__(name: str) -> Any:
    return _functions.find(name)


def __dir__() -> list[str]:
    return _functions.names()
