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


class _ConstantPadNd(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, value=self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A border of one value around [.., l]."""

    _rank = 1


class ConstantPad2d(_ConstantPadNd):
    """A border of one value around [.., h, w]."""

    _rank = 2


class ConstantPad3d(_ConstantPadNd):
    """A border of one value around [.., d, h, w]."""

    _rank = 3


class _ZeroPad:
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)  # type: ignore[call-arg]  # of the constant padding that comes next

    extra_repr = _Pad.extra_repr


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """A border of zeros around [.., l]."""

    _rank = 1


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """A border of zeros around [.., h, w]."""

    _rank = 2


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """A border of zeros around [.., d, h, w]."""

    _rank = 3


class _ReflectionPadNd(_Pad):
    pass


class ReflectionPad1d(_ReflectionPadNd):
    """A border that mirrors the input."""

    _rank, _mode = 1, "reflect"


class ReflectionPad2d(_ReflectionPadNd):
    """A border that mirrors the input."""

    _rank, _mode = 2, "reflect"


class ReflectionPad3d(_ReflectionPadNd):
    """A border that mirrors the input."""

    _rank, _mode = 3, "reflect"


class _ReplicationPadNd(_Pad):
    pass


class ReplicationPad1d(_ReplicationPadNd):
    """A border of the input's outermost elements."""

    _rank, _mode = 1, "replicate"


class ReplicationPad2d(_ReplicationPadNd):
    """A border of the input's outermost elements."""

    _rank, _mode = 2, "replicate"


class ReplicationPad3d(_ReplicationPadNd):
    """A border of the input's outermost elements."""

    _rank, _mode = 3, "replicate"


class _CircularPadNd(_Pad):
    pass


class CircularPad1d(_CircularPadNd):
    """A border that goes on at the other end."""

    _rank, _mode = 1, "circular"


class CircularPad2d(_CircularPadNd):
    """A border that goes on at the other end."""

    _rank, _mode = 2, "circular"


class CircularPad3d(_CircularPadNd):
    """A border that goes on at the other end."""

    _rank, _mode = 3, "circular"
