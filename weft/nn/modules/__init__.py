"""Modules by subject. Start reading at module.py. PyTorch's names of these files work as attributes:
`nn.modules.batchnorm._BatchNorm`."""

from __future__ import annotations

import importlib
from typing import Any

_FILES = {  # PyTorch's name of a file: ours
    "activation": "activations", "batchnorm": "running_norms", "container": "containers", "distance": "distances",
    "flatten": "reshaping", "fold": "reshaping", "instancenorm": "running_norms", "loss": "losses",
    "normalization": "norms", "pixelshuffle": "reshaping", "rnn": "recurrent", "sparse": "embedding",
    "upsampling": "reshaping", "utils": "prefixes",
}


def __getattr__(name: str) -> Any:
    if name in _FILES:
        return importlib.import_module(f"{__name__}.{_FILES[name]}")
    found = getattr(importlib.import_module("weft.nn"), name, None)
    if not isinstance(found, type):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
