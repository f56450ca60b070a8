"""Gradients of convolutions as functions: what a Function of one's own calls in its backward.
They have gradients themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.packet import aten
from weft.tensor.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value) * (rank if len(value) == 1 else 1)


def _input_gradient(rank: int, dims: str) -> Callable[..., Tensor]:
    def gradient(
        input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        return aten._convolve_input(
            grad_output, weight, tuple(input_size)[-rank:], _each(stride, rank), _each(padding, rank),
            _each(dilation, rank), groups)

    return _named(gradient, f"conv{rank}d_input", f"The gradient of conv{rank}d for an input of this size {dims}.")


def _weight_gradient(rank: int, dims: str) -> Callable[..., Tensor]:
    def gradient(
        input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        return aten._convolve_weight(
            grad_output, input, tuple(weight_size)[-rank:], _each(stride, rank), _each(padding, rank),
            _each(dilation, rank), groups)

    return _named(gradient, f"conv{rank}d_weight", f"The gradient of conv{rank}d for a weight of this size {dims}.")


def _named(function: Callable[..., Tensor], name: str, doc: str) -> Callable[..., Tensor]:
    function.__name__, function.__qualname__, function.__doc__ = name, name, doc
    return function


conv1d_input, conv1d_weight = _input_gradient(1, "[n, c, l]"), _weight_gradient(1, "[o, c / groups, k]")
conv2d_input, conv2d_weight = _input_gradient(2, "[n, c, h, w]"), _weight_gradient(2, "[o, c / groups, k, k]")
conv3d_input, conv3d_weight = _input_gradient(3, "[n, c, d, h, w]"), _weight_gradient(3, "[o, c / groups, k, k, k]")
