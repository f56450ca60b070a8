"""Power pooling, local response normalization."""

from __future__ import annotations

import math
from typing import Any

from weft.ops.packet import aten
from weft.support.errors import ShapeError
from weft.tensor.tensor import Tensor

__all__ = ["local_response_norm", "lp_pool1d", "lp_pool2d", "lp_pool3d"]


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of the last dim."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of the last two dims."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of the last three dims."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(rank: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    sizes = (kernel_size,) * rank if isinstance(kernel_size, int) else tuple(kernel_size)
    mean = getattr(aten, f"avg_pool{rank}d")(aten.pow(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return aten.pow(aten.sign(mean) * aten.relu(aten.abs(mean)) * math.prod(sizes), 1.0 / norm_type)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """input / (k + alpha * m)^beta, where m is the mean square over `size` neighbouring channels of [n, c, ...]."""
    if input.ndim < 3:
        raise ShapeError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if 0 in input.dims:  # (of symbols it is not asked)
        return input.clone()
    squares = aten.movedim(input * input, 1, -1)
    lead = tuple(squares.dims[:-1])
    lined = aten.constant_pad_nd(aten.reshape(squares, (1, -1, squares.dims[-1])), (size // 2, (size - 1) // 2), 0.0)
    mean = aten.reshape(aten.avg_pool1d(lined, size, 1), (*lead, input.dims[1]))
    return input / aten.pow(aten.movedim(mean, -1, 1) * alpha + k, beta)
