"""Gradients of convolutions as functions: what a Function of one's own calls in its backward.
They have gradients themselves."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.tensor.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value) * (rank if len(value) == 1 else 1)


def _input(
    rank: int, input_size: Any, weight: Tensor, grad_output: Tensor,
    stride: Any, padding: Any, dilation: Any, groups: int,
) -> Tensor:
    return aten._convolve_input(
        grad_output, weight, tuple(input_size)[-rank:], _each(stride, rank), _each(padding, rank),
        _each(dilation, rank), groups)


def _weight(
    rank: int, input: Tensor, weight_size: Any, grad_output: Tensor,
    stride: Any, padding: Any, dilation: Any, groups: int,
) -> Tensor:
    return aten._convolve_weight(
        grad_output, input, tuple(weight_size)[-rank:], _each(stride, rank), _each(padding, rank),
        _each(dilation, rank), groups)


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv1d for an input of this size [n, c, l]."""
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv1d for a weight of this size [o, c / groups, k]."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv2d for an input of this size [n, c, h, w]."""
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv2d for a weight of this size [o, c / groups, k, k]."""
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv3d for an input of this size [n, c, d, h, w]."""
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv3d for a weight of this size [o, c / groups, k, k, k]."""
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
