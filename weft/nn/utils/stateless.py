"""functional_call by PyTorch's older path."""

from __future__ import annotations

from typing import Any

from weft.func import state
from weft.nn.modules.module import Module
from weft.tensor.tensor import Tensor

__all__ = ["functional_call"]


def functional_call(
    module: Module, parameters_and_buffers: dict[str, Tensor], args: Any = None, kwargs: dict[str, Any] | None = None,
    *, tie_weights: bool = True, strict: bool = False,
) -> Any:
    """Call the module with these parameters and buffers, by name, in place of its own; weft.func.functional_call takes
    several dicts too."""
    return state.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
