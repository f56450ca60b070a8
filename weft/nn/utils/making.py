"""skip_init: a module whose parameters are not drawn; factory_kwargs: keywords of its factories."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from weft.nn.modules.module import Module
from weft.support.errors import ArgumentError, StateError

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


_KEYWORDS = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Keywords of a module that its factories take: device, dtype and memory_format, and those in `factory_kwargs`.
    Raises ArgumentError for others, and for one that is there twice."""
    if kwargs is None:
        return {}
    others = set(kwargs) - {*_KEYWORDS, "factory_kwargs"}
    if others:
        raise ArgumentError(f"unexpected kwargs {others}")
    out = dict(kwargs.get("factory_kwargs", {}))
    for name in _KEYWORDS:
        if name in kwargs:
            if name in out:
                raise ArgumentError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            out[name] = kwargs[name]
    return out
