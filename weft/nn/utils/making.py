"""skip_init: a module whose parameters are not drawn."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from weft.nn.modules.module import Module
from weft.support.errors import StateError

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """`module_cls(*args, **kwargs)` with any values in its parameters, for those who load them at once.
    The class must take `device`."""
    if not issubclass(module_cls, Module):
        raise StateError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise StateError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
