"""Classes of upper floors that lower floors must recognise without importing them: nn.Module, Optimizer.
They register themselves."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

module_classes: list[type] = []
opaque_classes: list[type] = []
program_classes: list[type] = []  # what is compiled once, whose attributes are nobody's settings
# hooks on every module, by their handles' numbers: a captured function depends on which there are
hook_tables: list[Mapping[int, Any]] = []
optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # those alive, whose groups a captured function may not change


def living_optimizers() -> list[Any]:
    """The optimizers alive. Other threads may make theirs meanwhile."""
    while True:
        try:
            return list(optimizers)
        except RuntimeError:  # the set has grown during the walk
            continue


def is_module(value: object) -> bool:
    """Whether a value is an nn.Module."""
    return isinstance(value, tuple(module_classes))
