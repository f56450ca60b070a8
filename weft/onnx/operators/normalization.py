"""Normalization over batches, layers, groups, and neighbours."""

from __future__ import annotations

from typing import Any

import weft
from weft.nn import functional as F
from weft.onnx.dtypes import dtype_of
from weft.onnx.registry import operator, symbolic
from weft.tensor.tensor import Tensor


def _by_channel(v: Tensor, x: Tensor) -> Tensor:
    return v.reshape([1, -1] + [1] * (x.ndim - 2))


@operator("BatchNormalization")
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0, spatial: int = 1, outputs: int,
) -> Any:
    if not training_mode:
        gap = x - _by_channel(mean, x).to(x.dtype)
        factor = _by_channel(scale, x) / weft.sqrt(_by_channel(var, x) + epsilon)
        return (gap * factor.to(x.dtype) + _by_channel(bias, x)).to(x.dtype)
    axes = [0, *range(2, x.ndim)]
    now, spread = weft.mean(x, axes), weft.var(x, axes, correction=0)
    normalized = (x - _by_channel(now, x)) / weft.sqrt(_by_channel(spread, x) + epsilon)
    normalized = normalized * _by_channel(scale, x) + _by_channel(bias, x)
    if outputs == 1:
        return normalized
    return normalized, mean * momentum + now * (1 - momentum), var * momentum + spread * (1 - momentum)


@symbolic("aten::batch_norm_eval")
def write_batch_norm(g: Any, x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: Any) -> Any:
    weight = g.filled(g.op("Shape", mean), 1, g.dtype(x)) if weight is None else weight
    bias = g.filled(g.op("Shape", mean), 0, g.dtype(x)) if bias is None else bias
    return g.op("BatchNormalization", x, weight, bias, mean, var, epsilon=float(g.known(eps)))


@symbolic("nn::batch_norm")
def write_nn_batch_norm(
    g: Any, x: Any, mean: Any, var: Any, weight: Any, bias: Any, training: Any, momentum: Any, eps: Any
) -> Any:
    g.require(not g.known(training), "batch_norm in training; call model.eval() first")
    return write_batch_norm(g, x, weight, bias, mean, var, eps)


def _normalized(x: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = weft.mean(x, axes, keepdim=True)
    gap = x - mean
    inverse = 1 / weft.sqrt(weft.mean(gap * gap, axes, keepdim=True) + epsilon)
    return gap * inverse, mean, inverse


@operator("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    normalized, _, _ = _normalized(x, list(range(2, x.ndim)), epsilon)
    return normalized * _by_channel(scale, x) + _by_channel(bias, x)


@symbolic("nn::instance_norm")
def write_instance_norm(
    g: Any, x: Any, mean: Any, var: Any, weight: Any, bias: Any, use_input_stats: Any, momentum: Any, eps: Any
) -> Any:
    g.require(bool(g.known(use_input_stats)), "instance_norm with running statistics")
    channels = g.shape([g.size(x, 1)])
    weight = g.filled(channels, 1, g.dtype(x)) if weight is None else weight
    bias = g.filled(channels, 0, g.dtype(x)) if bias is None else bias
    return g.op("InstanceNormalization", x, weight, bias, epsilon=float(g.known(eps)))


@operator("LayerNormalization")
def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1, outputs: int,
) -> Any:
    wide = x.to(dtype_of(stash_type)) if x.dtype.itemsize < 4 else x
    normalized, mean, inverse = _normalized(wide, list(range(axis % x.ndim, x.ndim)), epsilon)
    normalized = normalized.to(x.dtype) * scale
    normalized = normalized if bias is None else normalized + bias
    return (normalized, mean, inverse)[:outputs] if outputs > 1 else normalized


@symbolic("aten::layer_norm")
def write_layer_norm(g: Any, x: Any, shape: Any, weight: Any, bias: Any, eps: Any, *others: Any) -> Any:
    axis = -len(shape)
    if weight is None:
        weight = g.filled(g.shape([g.size(x, g.ndim(x) + axis + i) for i in range(-axis)]), 1, g.dtype(x))
    return g.op("LayerNormalization", x, weight, bias, axis=axis, epsilon=float(g.known(eps)))


@operator("GroupNormalization")
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1, opset: int
) -> Tensor:
    groups = x.reshape((x.shape[0], num_groups, -1))
    normalized, _, _ = _normalized(groups, [2], epsilon)
    if opset < 21:  # one scale for each group
        normalized = normalized * scale.reshape((1, -1, 1)) + bias.reshape((1, -1, 1))
        return normalized.reshape(x.shape)
    return normalized.reshape(x.shape) * _by_channel(scale, x) + _by_channel(bias, x)


@symbolic("aten::group_norm")
def write_group_norm(g: Any, x: Any, groups: Any, weight: Any, bias: Any, eps: Any, *others: Any) -> Any:
    """InstanceNormalization of the groups as channels, which every version has."""
    count = g.known(groups)
    flat = g.op("Reshape", x, g.ints([0, count, -1]))
    ones, zeros = (g.constant([v] * count, g.dtype(x)) for v in (1, 0))
    normalized = g.op("InstanceNormalization", flat, ones, zeros, epsilon=float(g.known(eps)))
    normalized = g.op("Reshape", normalized, g.op("Shape", x))
    axes = g.ints(range(1, g.ndim(x) - 1))
    normalized = normalized if weight is None else g.op("Mul", normalized, g.op("Unsqueeze", weight, axes))
    return normalized if bias is None else g.op("Add", normalized, g.op("Unsqueeze", bias, axes))


@operator("RMSNormalization")
def rms_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    wide = x.to(dtype_of(stash_type)) if x.dtype.itemsize < 4 else x
    squares = weft.mean(wide * wide, list(range(axis % x.ndim, x.ndim)), keepdim=True)
    return (wide / weft.sqrt(squares + epsilon)).to(x.dtype) * scale


@symbolic("aten::rms_norm")
def write_rms_norm(g: Any, x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    small = weft.finfo(g.dtype(x)).eps if g.known(eps) is None else g.known(eps)
    axes = list(range(g.ndim(x) - len(shape), g.ndim(x)))
    named = {} if g.opset >= 18 else {"axes": axes}
    rest = (g.ints(axes),) if g.opset >= 18 else ()
    squares = g.op("ReduceMean", g.op("Mul", x, x), *rest, keepdims=1, **named)
    normalized = g.op("Div", x, g.op("Sqrt", g.op("Add", squares, g.like(x, float(small)))))
    return normalized if weight is None else g.op("Mul", normalized, weight)


@operator("LRN")
def lrn(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    before = (size - 1) // 2
    squares = F.pad(x * x, [0, 0] * (x.ndim - 2) + [before, size - 1 - before])
    total = squares.narrow(1, 0, x.shape[1])
    for i in range(1, size):
        total = total + squares.narrow(1, i, x.shape[1])
    return x / (bias + alpha / size * total) ** beta


@operator("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    length = weft.sum(weft.abs(x), axis, keepdim=True) if p == 1 else weft.sqrt(weft.sum(x * x, axis, keepdim=True))
    return weft.where(length == 0, weft.zeros_like(x), x / length)


@operator("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    named = axes or [0, 2, 3]
    mean = weft.mean(x, named, keepdim=True)
    spread = weft.sqrt(weft.mean(x * x, named, keepdim=True) - mean * mean)
    return (x - mean) / (spread + 1e-9)


@symbolic("nn::normalize")
def write_normalize(g: Any, x: Any, p: Any, dim: Any, eps: Any, *others: Any) -> Any:
    g.require(g.known(p) in (1, 2), f"normalize with p={g.known(p)}")
    name, axis = "ReduceL1" if g.known(p) == 1 else "ReduceL2", g.axis(g.each(dim, 1)[0], x)
    length = g.op(name, x, g.ints([axis]), keepdims=1) if g.opset >= 18 else g.op(name, x, axes=[axis], keepdims=1)
    return g.op("Div", x, g.op("Max", length, g.like(x, float(g.known(eps)))))
