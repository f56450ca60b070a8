"""Whole numbers for floating ones: a scale and a zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.onnx.dtypes import dtype_of
from weft.onnx.operators.convolution import conv
from weft.onnx.registry import operator
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType


def _along(v: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point for each element: one number, one for each slice, or one for each block."""
    if v.ndim == 0 or (v.ndim == 1 and v.shape[0] == 1):
        return v.reshape(())
    if v.ndim == 1 and not block:
        return v.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    if not block:
        return v
    return weft.repeat_interleave(v, block, axis).narrow(axis % x.ndim, 0, x.shape[axis])


def _saturated(x: Tensor, dtype: DType) -> Tensor:
    limits = np.iinfo(dtype.numpy)
    return weft.clamp(x, int(limits.min), int(limits.max)).to(dtype)


@operator("QuantizeLinear")
def quantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, saturate: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0,
) -> Tensor:
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype) if output_dtype else weft.uint8
    wide = x.to(weft.float32) if x.dtype.itemsize < 4 or not x.dtype.is_floating_point else x
    quantized = weft.round(wide / _along(scale, x, axis, block_size).to(wide.dtype))
    if zero is not None:
        quantized = quantized + _along(zero, x, axis, block_size).to(quantized.dtype)
    return _saturated(quantized, dtype)


@operator("DequantizeLinear")
def dequantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Tensor:
    whole = x.to(weft.float32)
    if zero is not None:
        whole = whole - _along(zero, x, axis, block_size).to(weft.float32)
    scaled = whole * _along(scale, x, axis, block_size).to(weft.float32)
    return scaled.to(dtype_of(output_dtype) if output_dtype else scale.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Tensor) -> Any:
    zero = weft.zeros((), dtype=x.dtype)
    least, most = weft.minimum(weft.amin(x), zero), weft.maximum(weft.amax(x), zero)
    scale = (most - least) / 255
    point = weft.clamp(weft.round(-least / scale), 0, 255).to(weft.uint8)
    return quantize(x, scale, point), scale, point


@operator("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    left, right = a.to(weft.int32), b.to(weft.int32)
    if a_zero is not None:
        point = a_zero.to(weft.int32)
        left = left - (point.unsqueeze(-1) if point.ndim else point)
    if b_zero is not None:
        right = right - b_zero.to(weft.int32)
    return weft.matmul(left, right)


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    whole = matmul_integer(a, b, a_zero, b_zero).to(weft.float32)
    left = a_scale.to(weft.float32)
    factor = (left.unsqueeze(-1) if left.ndim else left) * b_scale.to(weft.float32) / y_scale.to(weft.float32)
    return _saturated(weft.round(whole * factor) + y_zero.to(weft.float32), y_zero.dtype)


@operator("QLinearConv")
def qlinear_conv(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, weight: Tensor, w_scale: Tensor, w_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor, bias: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: list[int] | None = None,
    group: int = 1, kernel_shape: list[int] | None = None, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    rank = weight.ndim - 2

    def each(v: Tensor) -> Tensor:
        return v.to(weft.float64).reshape([-1] + [1] * (rank + 1)) if v.ndim else v.to(weft.float64)

    whole = conv(
        x.to(weft.float64) - x_zero.to(weft.float64), weight.to(weft.float64) - each(w_zero),
        None if bias is None else bias.to(weft.float64), auto_pad=auto_pad, dilations=dilations, group=group,
        pads=pads, strides=strides,
    )  # fmt: skip
    by_channel = w_scale.to(weft.float64).reshape([1, -1] + [1] * rank)
    factor = by_channel * x_scale.to(weft.float64) / y_scale.to(weft.float64)
    return _saturated(weft.round(whole * factor) + y_zero.to(weft.float64), y_zero.dtype)
