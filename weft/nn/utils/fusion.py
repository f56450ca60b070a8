"""BatchNorm in evaluation mode folded into the layer before it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor

M = TypeVar("M", bound=Module)


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A convolution that computes bn(conv(x)). Both must be in evaluation mode. transpose: conv is transposed."""
    fused = _copied(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose)
    return fused


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """A linear layer that computes bn(linear(x)). Both must be in evaluation mode.
    Raises ValueProblem where their sizes do not fit."""
    fused = _copied(linear, bn)
    if bn.num_features not in (1, fused.out_features):
        raise ValueProblem("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that does the work of both."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the linear layer that does the work of both."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _copied(layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise ValueProblem("fusion needs a BatchNorm with running statistics")
    return copy.deepcopy(layer)


def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float, scale: Tensor | None,
    shift: Tensor | None, dim: int,
) -> tuple[Parameter, Parameter]:
    factor = aten.rsqrt(variance + eps)
    factor = factor if scale is None else scale * factor
    moved = (-mean if bias is None else bias - mean) * factor
    moved = moved if shift is None else moved + shift
    lined = aten.reshape(factor, tuple(-1 if d == dim else 1 for d in range(weight.ndim)))
    new_weight, new_bias = (weight * lined).to(weight.dtype), moved.to(weight.dtype if bias is None else bias.dtype)
    return Parameter(new_weight.detach(), weight.requires_grad), Parameter(
        new_bias.detach(), weight.requires_grad if bias is None else bias.requires_grad
    )
