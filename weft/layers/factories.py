"""Factories as users call them: the entries, with requires_grad=, device= and the options that PyTorch accepts and weft has one value for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.packet import aten
from weft.support.errors import Unsupported
from weft.tensor.device import Device
from weft.tensor.tensor import Tensor

NAMES = (
    "zeros", "ones", "full", "empty", "arange", "linspace", "logspace", "eye", "zeros_like", "ones_like", "full_like", "empty_like",
    "empty_strided", "tril_indices", "triu_indices", "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal",
)
_LAYOUTS = (None, "weft.strided")


def _factory(name: str) -> Callable[..., Tensor]:
    def function(
        *args: Any, requires_grad: bool = False, device: Any = None, layout: Any = None, pin_memory: bool = False, memory_format: Any = None,
        out: Any = None, **kwargs: Any,
    ) -> Tensor:
        if layout not in _LAYOUTS:
            raise Unsupported(f"{name}: layout {layout} is not offered; weft has strided tensors")
        if device is not None:
            Device(device)
        made: Tensor = getattr(aten, name)(*args, **kwargs)
        if out is not None:
            from weft.layers.variants import _write_out  # variants imports the walk, which imports much

            return _write_out(name, made, out)
        return made.requires_grad_() if requires_grad else made

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"See the entry aten::{name}; also takes requires_grad= and device=."
    return function


FACTORIES: dict[str, Callable[..., Tensor]] = {name: _factory(name) for name in NAMES}
