"""weft.__future__: PyTorch's switches of how Module.to and load_state_dict change parameters."""

from __future__ import annotations

from weft.support.errors import Unsupported

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions make new parameters: no, they change those that are there."""
    return False


def get_swap_module_params_on_conversion() -> bool:
    """Whether conversions swap tensors: no, they change those that are there."""
    return False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Accepts False. Raises Unsupported."""
    _refuse("overwrite", value)


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Accepts False. Raises Unsupported."""
    _refuse("swap", value)


def _refuse(name: str, value: bool) -> None:
    if value:
        raise Unsupported(f"set_{name}_module_params_on_conversion: conversions change the parameters that are there")
