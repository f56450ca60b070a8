"""Pooling in 1, 2 and 3 dimensions, and its inverse."""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.nn.modules.conv import times
from weft.nn.modules.module import Module
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


class _MaxPoolNd(Module):
    _rank = 0

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding, self.dilation = (
            kernel_size, kernel_size if stride is None else stride, padding, dilation
        )
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        pool = getattr(F, f"max_pool{self._rank}d{'_with_indices' if self.return_indices else ''}")
        return pool(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The greatest element of each window of [n, c, l]."""

    _rank = 1


class MaxPool2d(_MaxPoolNd):
    """The greatest element of each window of [n, c, h, w]."""

    _rank = 2


class MaxPool3d(_MaxPoolNd):
    """The greatest element of each window of [n, c, d, h, w]."""

    _rank = 3


def _single(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


class _AvgPoolNd(Module):
    _rank = 0

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        rest = () if self._rank == 1 else (self.divisor_override,)
        pool = getattr(F, f"avg_pool{self._rank}d")
        return pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, *rest)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of [n, c, l]."""

    _rank = 1

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(
            _single(kernel_size), _single(kernel_size if stride is None else stride), _single(padding), ceil_mode,
            count_include_pad,
        )


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of [n, c, h, w]."""

    _rank = 2


class AvgPool3d(_AvgPoolNd):
    """The mean of each window of [n, c, d, h, w]."""

    _rank = 3


class _AdaptiveAvgPoolNd(Module):
    _rank = 0

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, f"adaptive_avg_pool{self._rank}d")(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of windows that divide [n, c, l] into output_size places."""

    _rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of windows that divide [n, c, h, w] into output_size places."""

    _rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of windows that divide [n, c, d, h, w] into output_size places."""

    _rank = 3


class _AdaptiveMaxPoolNd(Module):
    _rank = 0

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, f"adaptive_max_pool{self._rank}d")(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The greatest elements of windows that divide [n, c, l] into output_size places."""

    _rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The greatest elements of windows that divide [n, c, h, w] into output_size places."""

    _rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The greatest elements of windows that divide [n, c, d, h, w] into output_size places."""

    _rank = 3


class _LPPoolNd(Module):
    _rank = 0

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, f"lp_pool{self._rank}d")(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The p-norm of each window of [n, c, l]."""

    _rank = 1


class LPPool2d(_LPPoolNd):
    """The p-norm of each window of [n, c, h, w]."""

    _rank = 2


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of [n, c, d, h, w]."""

    _rank = 3


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
