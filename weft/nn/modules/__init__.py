"""Modules by subject. Start reading at module.py. PyTorch's names of these files work too:
`nn.modules.batchnorm._BatchNorm` (file_names.py)."""

from __future__ import annotations

import importlib
from typing import Any

from weft.nn.modules.file_names import FILES, install

install()


def __getattr__(name: str) -> Any:
    if name in FILES:
        return importlib.import_module(f"{__name__}.{name}")
    module_class = getattr(importlib.import_module("weft.nn"), name, None)
    if not isinstance(module_class, type):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return module_class
