"""FractionalMaxPool2d and FractionalMaxPool3d: maximum pooling with windows at random places."""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.nn.modules.conv import times
from weft.nn.modules.module import Module
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


class _FractionalMaxPool(Module):
    _rank = 0

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, rank = type(self).__name__, self._rank
        if (output_size is None) == (output_ratio is None):
            raise ValueProblem(
                f"{name} requires specifying either an output size, or a pooling ratio" if output_size is None
                else "only one of output_size and output_ratio may be specified"
            )
        self.kernel_size = times(kernel_size, rank)
        self.output_size = None if output_size is None else times(output_size, rank)
        self.output_ratio = (output_ratio,) * rank if isinstance(output_ratio, float) else output_ratio
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueProblem(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        pool = getattr(F, f"fractional_max_pool{self._rank}d")
        return pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The greatest elements of random windows of [n, c, h, w]: output_size of them, or output_ratio times as many
    as the input's places."""

    _rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The greatest elements of random windows of [n, c, d, h, w]: output_size of them, or output_ratio times as many
    as the input's places."""

    _rank = 3
