"""Functions of neural networks, element by element or over one axis."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft.nn import functional as F
from weft.onnx.registry import operator, pair, symbolic
from weft.tensor.tensor import Tensor

pair("Softsign", "aten::softsign", lambda x: F.softsign(x))


@operator("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    return F.hardswish(x)


@symbolic("aten::hardswish")
def write_hardswish(g: Any, x: Any) -> Any:
    return g.op("HardSwish", x) if g.opset >= 14 else g.op("Mul", x, g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))


@operator("Mish")
def mish(x: Tensor) -> Tensor:
    return F.mish(x)


@symbolic("aten::mish")
def write_mish(g: Any, x: Any) -> Any:
    return g.op("Mish", x) if g.opset >= 18 else g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@symbolic("aten::elu")
def write_elu(g: Any, x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    g.require(g.known(scale) == 1 and g.known(input_scale) == 1, "elu with a scale")
    return g.op("Elu", x, alpha=float(g.known(alpha)))


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@symbolic("aten::celu")
def write_celu(g: Any, x: Any, alpha: Any) -> Any:
    return g.op("Celu", x, alpha=float(g.known(alpha)))


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Tensor:
    return gamma * weft.where(x > 0, x, alpha * weft.expm1(weft.clamp(x, max=0)))


@symbolic("aten::selu")
def write_selu(g: Any, x: Any) -> Any:
    return g.op("Selu", x)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@symbolic("aten::leaky_relu")
def write_leaky_relu(g: Any, x: Any, slope: Any) -> Any:
    return g.op("LeakyRelu", x, alpha=float(g.known(slope)))


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return weft.where(x < 0, x * slope, x)


@symbolic("aten::prelu")
def write_prelu(g: Any, x: Any, slope: Any) -> Any:
    if g.ndim(slope) == 1 and g.ndim(x) > 2:
        slope = g.op("Unsqueeze", slope, g.ints(range(1, g.ndim(x) - 1)))
    return g.op("PRelu", x, slope)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return weft.where(x > alpha, x, weft.zeros_like(x))


@symbolic("aten::threshold")
def write_threshold(g: Any, x: Any, threshold: Any, value: Any) -> Any:
    x, threshold, value = g.promoted((x, threshold, value))
    return g.op("Where", g.op("Greater", x, threshold), x, value)


@symbolic("aten::relu6")
def write_relu6(g: Any, x: Any) -> Any:
    return g.op("Clip", x, g.like(x, 0), g.like(x, 6))


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return weft.clamp(alpha * x + beta, 0, 1)


@symbolic("aten::hardsigmoid")
def write_hard_sigmoid(g: Any, x: Any) -> Any:
    return g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    zero = weft.zeros_like(x)
    return weft.where(x < -lambd, x + bias, weft.where(x > lambd, x - bias, zero)).to(x.dtype)


@symbolic("aten::softshrink")
def write_softshrink(g: Any, x: Any, lambd: Any) -> Any:
    limit = float(g.known(lambd))  # (Shrink makes 0 of NaN)
    return g.op("Sub", x, g.op("Clip", x, g.like(x, -limit), g.like(x, limit)))


@symbolic("aten::hardshrink")
def write_hardshrink(g: Any, x: Any, lambd: Any) -> Any:
    return g.op("Where", g.op("LessOrEqual", g.op("Abs", x), g.like(x, float(g.known(lambd)))), g.like(x, 0), x)


@symbolic("aten::tanhshrink")
def write_tanhshrink(g: Any, x: Any) -> Any:
    return g.op("Sub", x, g.op("Tanh", x))


@operator("Softplus")
def softplus(x: Tensor) -> Tensor:
    return F.softplus(x)


@symbolic("aten::softplus")
def write_softplus(g: Any, x: Any, beta: Any, threshold: Any) -> Any:
    beta, threshold = float(g.known(beta)), float(g.known(threshold))
    scale = g.like(x, beta)
    scaled = x if beta == 1 else g.op("Mul", x, scale)
    out = g.op("Softplus", scaled) if beta == 1 else g.op("Div", g.op("Softplus", scaled), scale)
    if threshold >= 20:  # nothing that a float shows
        return out
    return g.op("Where", g.op("Greater", scaled, g.like(x, threshold)), x, out)


@symbolic("aten::log_sigmoid", "aten::logsigmoid")
def write_log_sigmoid(g: Any, x: Any) -> Any:
    return g.op("Neg", g.op("Softplus", g.op("Neg", x)))


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


@symbolic("aten::gelu")
def write_gelu(g: Any, x: Any, approximate: Any) -> Any:
    if g.opset >= 20:
        return g.op("Gelu", x, approximate=g.known(approximate))
    half, one = g.like(x, 0.5), g.like(x, 1)
    if g.known(approximate) == "none":
        inner = g.op("Erf", g.op("Mul", x, g.like(x, 2**-0.5)))
    else:
        cube = g.op("Mul", g.like(x, 0.044715), g.op("Mul", x, g.op("Mul", x, x)))
        inner = g.op("Tanh", g.op("Mul", g.like(x, (2 / math.pi) ** 0.5), g.op("Add", x, cube)))
    return g.op("Mul", g.op("Mul", half, x), g.op("Add", one, inner))


@symbolic("aten::silu")
def write_silu(g: Any, x: Any) -> Any:
    return g.op("Mul", x, g.op("Sigmoid", x))


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * weft.sigmoid(alpha * x)


@symbolic("aten::glu")
def write_glu(g: Any, x: Any, dim: Any) -> Any:
    a, b = g.op("Split", x, axis=g.axis(dim, x), outputs=2, **({"num_outputs": 2} if g.opset >= 18 else {}))
    return g.op("Mul", a, g.op("Sigmoid", b))


# ---- over an axis
def _flat(x: Tensor, axis: int) -> Tensor:
    """As older versions see it: everything from an axis on is one dim."""
    axis = axis % max(x.ndim, 1)
    return x.flatten(axis) if x.ndim > axis + 1 else x


@operator("Softmax")
def softmax(x: Tensor, *, axis: int | None = None, opset: int) -> Tensor:
    if opset >= 13:
        return F.softmax(x, -1 if axis is None else axis)
    return F.softmax(_flat(x, 1 if axis is None else axis), -1).reshape(x.shape)


@operator("LogSoftmax")
def log_softmax(x: Tensor, *, axis: int | None = None, opset: int) -> Tensor:
    if opset >= 13:
        return F.log_softmax(x, -1 if axis is None else axis)
    return F.log_softmax(_flat(x, 1 if axis is None else axis), -1).reshape(x.shape)


@operator("Hardmax")
def hardmax(x: Tensor, *, axis: int | None = None, opset: int) -> Tensor:
    whole = x.shape
    if opset < 13:
        x = _flat(x, 1 if axis is None else axis)
        axis = -1
    axis = -1 if axis is None else axis
    places = weft.argmax(x, axis, keepdim=True)
    return weft.scatter(weft.zeros_like(x), axis, places, 1.0).reshape(whole)


@symbolic("aten::softmax.int", "aten::_softmax")
def write_softmax(g: Any, x: Any, dim: Any, dtype: Any = None) -> Any:
    return g.op("Softmax", g.result_cast(x), axis=g.axis(dim, x))


@symbolic("aten::log_softmax.int", "aten::_log_softmax")
def write_log_softmax(g: Any, x: Any, dim: Any, dtype: Any = None) -> Any:
    return g.op("LogSoftmax", g.result_cast(x), axis=g.axis(dim, x))


@operator("Dropout")
def dropout(
    x: Tensor, ratio: Tensor | None = None, training_mode: Tensor | None = None, *, seed: int | None = None,
    ratio_: float = 0.5, outputs: int,
) -> Any:
    share = ratio_ if ratio is None else float(ratio)
    if training_mode is None or not bool(training_mode):
        return (x, weft.ones_like(x, dtype=weft.bool)) if outputs > 1 else x
    kept = weft.rand(x.shape) >= share
    scaled = weft.where(kept, x / (1 - share) if share < 1 else x, weft.zeros_like(x))
    return (scaled, kept) if outputs > 1 else scaled


@symbolic("aten::dropout")
def write_dropout(g: Any, x: Any, p: Any, train: Any) -> Any:
    return x if not g.known(train) or g.known(p) == 0 else g.op(
        "Dropout", x, g.numbers(float(g.known(p)), weft.float32), g.numbers(True, weft.bool)
    )
