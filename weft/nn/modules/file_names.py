"""PyTorch's names of the files of nn.modules: `from weft.nn.modules.batchnorm import _BatchNorm` works, whatever our
file is called."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_PACKAGE = "weft.nn.modules"
# PyTorch's name of a file: the files of ours that have its classes
FILES: dict[str, tuple[str, ...]] = {
    "activation": ("activations", "attention"), "adaptive": ("adaptive_softmax",),
    "batchnorm": ("running_norms", "lazy_layers"), "channelshuffle": ("reshaping",),
    "container": ("containers", "mappings", "module"), "distance": ("distances",), "flatten": ("reshaping",),
    "fold": ("reshaping",), "instancenorm": ("running_norms", "lazy_layers"), "loss": ("losses",),
    "normalization": ("norms",), "pixelshuffle": ("reshaping",), "rnn": ("recurrent", "recurrent_cells"),
    "sparse": ("embedding",), "upsampling": ("reshaping",), "utils": ("prefixes",),
}


def in_files(owner: str, name: str, files: tuple[str, ...]) -> Any:
    """A name from the first of these files that has it. Raises AttributeError."""
    if not name.startswith("__"):
        for file in files:
            scope = vars(importlib.import_module(f"{_PACKAGE}.{file}"))
            if name in scope:
                return scope[name]
    raise AttributeError(f"module {owner!r} has no attribute {name!r}")


class _File(ModuleType):
    """A file by PyTorch's name. Its names are looked up in ours when they are asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{_PACKAGE}.{name}", f"PyTorch's name for {', '.join(FILES[name])}.")
        self.__package__ = _PACKAGE
        self.files = FILES[name]

    def __getattr__(self, name: str) -> Any:
        return in_files(self.__name__, name, self.files)

    def __dir__(self) -> list[str]:
        modules = [importlib.import_module(f"{_PACKAGE}.{file}") for file in self.files]
        return sorted({name for module in modules for name in vars(module) if not name.startswith("__")})


def install() -> None:
    """Let `import weft.nn.modules.<PyTorch's name>` find each file."""
    for name in FILES:
        sys.modules.setdefault(f"{_PACKAGE}.{name}", _File(name))
