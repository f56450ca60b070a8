"""Padding as modules: a border of zeros, a constant, or of the input reflected, replicated or repeated."""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.nn.modules.module import Module
from weft.tensor.tensor import Tensor


class _Pad(Module):
    """padding: one number for every side, or (before, after) of the last dim, then of the one before it, ..."""

    _rank = 0
    _mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self._rank) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, mode=self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, value=self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A border of one value around [.., l]."""

    _rank = 1


class ConstantPad2d(_ConstantPad):
    """A border of one value around [.., h, w]."""

    _rank = 2


class ConstantPad3d(_ConstantPad):
    """A border of one value around [.., d, h, w]."""

    _rank = 3


class ZeroPad1d(_Pad):
    """A border of zeros around [.., l]."""

    _rank = 1


class ZeroPad2d(_Pad):
    """A border of zeros around [.., h, w]."""

    _rank = 2


class ZeroPad3d(_Pad):
    """A border of zeros around [.., d, h, w]."""

    _rank = 3


class ReflectionPad1d(_Pad):
    """A border that mirrors the input."""

    _rank, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """A border that mirrors the input."""

    _rank, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """A border that mirrors the input."""

    _rank, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """A border of the input's outermost elements."""

    _rank, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """A border of the input's outermost elements."""

    _rank, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """A border of the input's outermost elements."""

    _rank, _mode = 3, "replicate"


class CircularPad1d(_Pad):
    """A border that goes on at the other end."""

    _rank, _mode = 1, "circular"


class CircularPad2d(_Pad):
    """A border that goes on at the other end."""

    _rank, _mode = 2, "circular"


class CircularPad3d(_Pad):
    """A border that goes on at the other end."""

    _rank, _mode = 3, "circular"
