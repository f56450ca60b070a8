"""Pooling in 1, 2 and 3 dimensions."""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.nn.modules.module import Module
from weft.tensor.tensor import Tensor


class _MaxPool(Module):
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


class MaxPool1d(_MaxPool):
    """The greatest element of each window of [n, c, l]."""

    _rank = 1


class MaxPool2d(_MaxPool):
    """The greatest element of each window of [n, c, h, w]."""

    _rank = 2


class MaxPool3d(_MaxPool):
    """The greatest element of each window of [n, c, d, h, w]."""

    _rank = 3


def _single(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


class _AvgPool(Module):
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


class AvgPool1d(_AvgPool):
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


class AvgPool2d(_AvgPool):
    """The mean of each window of [n, c, h, w]."""

    _rank = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of [n, c, d, h, w]."""

    _rank = 3


class _AdaptiveAvgPool(Module):
    _rank = 0

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, f"adaptive_avg_pool{self._rank}d")(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of windows that divide [n, c, l] into output_size places."""

    _rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of windows that divide [n, c, h, w] into output_size places."""

    _rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of windows that divide [n, c, d, h, w] into output_size places."""

    _rank = 3


class _AdaptiveMaxPool(Module):
    _rank = 0

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, f"adaptive_max_pool{self._rank}d")(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The greatest elements of windows that divide [n, c, l] into output_size places."""

    _rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The greatest elements of windows that divide [n, c, h, w] into output_size places."""

    _rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The greatest elements of windows that divide [n, c, d, h, w] into output_size places."""

    _rank = 3


class _LPPool(Module):
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


class LPPool1d(_LPPool):
    """The p-norm of each window of [n, c, l]."""

    _rank = 1


class LPPool2d(_LPPool):
    """The p-norm of each window of [n, c, h, w]."""

    _rank = 2


class LPPool3d(_LPPool):
    """The p-norm of each window of [n, c, d, h, w]."""

    _rank = 3
