"""Adaptive maximum pooling, power pooling, local response normalization."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.tensor import Tensor

__all__ = ["adaptive_max_pool1d", "adaptive_max_pool2d", "local_response_norm", "lp_pool1d", "lp_pool2d"]


def _places(size: int, wanted: int) -> list[tuple[int, int]]:
    """The windows of adaptive pooling: from floor(i n / m) to ceil((i + 1) n / m)."""
    return [(i * size // wanted, -(-(i + 1) * size // wanted)) for i in range(wanted)]


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The greatest elements of windows that divide the last dim of [n, c, l] or [c, l]."""
    if input.ndim not in (2, 3):
        raise ShapeError(f"adaptive_max_pool1d() expects 2D or 3D input, got {input.ndim}D")
    wanted = output_size if isinstance(output_size, int) else output_size[0]
    values, indices = [], []
    for start, end in _places(int(input.shape[-1]), int(wanted)):
        value, index = aten.max(aten.narrow(input, -1, start, end - start), -1, False)
        values.append(value)
        indices.append(index + start)
    out = aten.stack(tuple(values), -1)
    return (out, aten.stack(tuple(indices), -1)) if return_indices else out


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The greatest elements of windows that divide the last two dims of [n, c, h, w] or [c, h, w]; indices count within h * w."""
    if input.ndim not in (3, 4):
        raise (ValueProblem if input.ndim < 3 else ShapeError)(f"adaptive_max_pool2d() expects 3D or 4D input, got {input.ndim}D")
    height, width = int(input.shape[-2]), int(input.shape[-1])
    wanted = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    if len(wanted) != 2:
        raise ShapeError(f"adaptive_max_pool2d(): output_size must be 2 ints, got {list(wanted)}")
    rows, columns = (size if w is None else int(w) for size, w in zip((height, width), wanted, strict=True))
    values, indices = [], []
    for top, bottom in _places(height, rows):
        for left, right in _places(width, columns):
            window = aten.narrow(aten.narrow(input, -2, top, bottom - top), -1, left, right - left)
            value, index = aten.max(aten.flatten(window, -2), -1, False)
            values.append(value)
            across = right - left
            indices.append((aten.floor_divide(index, across) + top) * width + aten.remainder(index, across) + left)
    lead = tuple(input.dims[:-2])
    out = aten.reshape(aten.stack(tuple(values), -1), (*lead, rows, columns))
    if not return_indices:
        return out
    return out, aten.reshape(aten.stack(tuple(indices), -1), (*lead, rows, columns))


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of the last dim."""
    width = kernel_size if isinstance(kernel_size, int) else kernel_size[0]
    mean = aten.avg_pool1d(aten.pow(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return aten.pow(aten.sign(mean) * aten.relu(aten.abs(mean)) * width, 1.0 / norm_type)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of the last two dims."""
    high, wide = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    mean = aten.avg_pool2d(aten.pow(input, norm_type), kernel_size, stride, 0, ceil_mode)
    return aten.pow(aten.sign(mean) * aten.relu(aten.abs(mean)) * (high * wide), 1.0 / norm_type)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """input / (k + alpha * m)^beta, where m is the mean square over `size` neighbouring channels of [n, c, ...]."""
    if input.ndim < 3:
        raise ShapeError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    squares = aten.movedim(input * input, 1, -1)
    lead = tuple(squares.dims[:-1])
    lined = aten.constant_pad_nd(aten.reshape(squares, (1, -1, squares.dims[-1])), (size // 2, (size - 1) // 2), 0.0)
    mean = aten.reshape(aten.avg_pool1d(lined, size, 1), (*lead, input.dims[1]))
    return input / aten.pow(aten.movedim(mean, -1, 1) * alpha + k, beta)
