"""MaxUnpool1d, MaxUnpool2d, MaxUnpool3d: each maximum back to where it came from."""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.nn.modules.conv import times
from weft.nn.modules.module import Module
from weft.tensor.tensor import Tensor


class _MaxUnpool(Module):
    _rank = 0

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = times(kernel_size, self._rank)
        self.stride = times(kernel_size if stride is None else stride, self._rank)
        self.padding = times(padding, self._rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return getattr(F, f"max_unpool{self._rank}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The inverse of MaxPool1d(return_indices=True) as far as there is one: zeros where no maximum was."""

    _rank = 1


class MaxUnpool2d(_MaxUnpool):
    """The inverse of MaxPool2d(return_indices=True) as far as there is one: zeros where no maximum was."""

    _rank = 2


class MaxUnpool3d(_MaxUnpool):
    """The inverse of MaxPool3d(return_indices=True) as far as there is one: zeros where no maximum was."""

    _rank = 3
