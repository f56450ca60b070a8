"""weft.fft: discrete Fourier transforms. Each function is the operator `aten::fft_<name>`."""

from __future__ import annotations

from typing import Any

from weft.layers.operator_namespaces import OperatorNamespace

_functions = OperatorNamespace("fft", globals())


def __getattr__(name: str) -> Any:
    return _functions.find(name)


def __dir__() -> list[str]:
    return _functions.names()
