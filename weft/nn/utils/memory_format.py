"""The memory format of weights of convolutions."""

from __future__ import annotations

from typing import Any, TypeVar

from weft.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from weft.nn.modules.module import Module

M = TypeVar("M", bound=Module)


def _convert(module: M, kinds: tuple[type[Module], ...], memory_format: Any) -> M:
    for part in module.modules():
        if isinstance(part, kinds):
            weight: Any = part.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The weights of all 2-dim convolutions in a module, laid out as the memory format says. Returns the module."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The weights of all 3-dim convolutions in a module, laid out as the memory format says. Returns the module."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
