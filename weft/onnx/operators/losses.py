"""Losses of classes, and the steps of optimizers that ONNX knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft.nn import functional as F
from weft.nn.functions.losses import reduction_of
from weft.onnx.registry import TRAINING, operator, symbolic
from weft.tensor.tensor import Tensor


def _nll(log_p: Tensor, target: Tensor, weight: Tensor | None, ignore: int | None, reduction: str) -> Tensor:
    target = target.to(weft.int64)
    kept = weft.ones_like(target, dtype=weft.bool) if ignore is None else target != ignore
    safe = weft.where(kept, target, weft.zeros_like(target))
    loss = -weft.gather(log_p, 1, safe.unsqueeze(1)).squeeze(1)
    share = weft.ones_like(loss) if weight is None else weight[safe]
    share = share * kept.to(loss.dtype)
    loss = loss * share
    if reduction == "none":
        return loss
    return weft.sum(loss) if reduction == "sum" else weft.sum(loss) / weft.sum(share)


@operator("NegativeLogLikelihoodLoss")
def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    return _nll(x, target, weight, ignore_index, reduction)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:
    log_p = F.log_softmax(x, 1)
    return _nll(log_p, target, weight, ignore_index, reduction), log_p


def _reduction(g: Any, size_average: Any, reduce: Any, reduction: Any) -> str:
    return reduction_of(g.known(size_average), g.known(reduce), g.known(reduction))


@symbolic("nn::cross_entropy")
def write_cross_entropy(
    g: Any, x: Any, target: Any, weight: Any = None, size_average: Any = None, ignore: Any = -100, reduce: Any = None,
    reduction: Any = "mean", smoothing: Any = 0.0,
) -> Any:
    g.require(not g.dtype(target).is_floating_point and not g.known(smoothing) and g.ndim(x) > 1,
              "cross_entropy of probabilities, with smoothing, or without a batch")  # fmt: skip
    attributes = {"ignore_index": g.known(ignore), "reduction": _reduction(g, size_average, reduce, reduction)}
    return g.op("SoftmaxCrossEntropyLoss", x, target, weight, **attributes)


@symbolic("nn::nll_loss")
def write_nll_loss(
    g: Any, x: Any, target: Any, weight: Any = None, size_average: Any = None, ignore: Any = -100, reduce: Any = None,
    reduction: Any = "mean",
) -> Any:
    g.require(g.ndim(x) > 1, "nll_loss without a batch")
    attributes = {"ignore_index": g.known(ignore), "reduction": _reduction(g, size_average, reduce, reduction)}
    return g.op("NegativeLogLikelihoodLoss", x, target, weight, **attributes)


def _reduced(g: Any, loss: Any, reduction: str) -> Any:
    name = {"mean": "ReduceMean", "sum": "ReduceSum", "none": ""}[reduction]
    return g.op(name, loss, keepdims=0) if name else loss


@symbolic("nn::mse_loss")
def write_mse_loss(g: Any, x: Any, target: Any, size_average: Any, reduce: Any, reduction: Any, *others: Any) -> Any:
    gap = g.op("Sub", *g.promoted((x, target)))
    return _reduced(g, g.op("Mul", gap, gap), _reduction(g, size_average, reduce, reduction))


@symbolic("nn::l1_loss")
def write_l1_loss(g: Any, x: Any, target: Any, size_average: Any, reduce: Any, reduction: Any, *others: Any) -> Any:
    gap = g.op("Abs", g.op("Sub", *g.promoted((x, target))))
    return _reduced(g, gap, _reduction(g, size_average, reduce, reduction))


@symbolic("aten::_binary_cross_entropy")
def write_binary_cross_entropy(g: Any, x: Any, target: Any) -> Any:
    x, target = g.promoted((x, target))
    one = g.like(x, 1)
    yes, no = (g.op("Max", g.op("Log", p), g.like(x, -100)) for p in (x, g.op("Sub", one, x)))
    return g.op("Neg", g.op("Add", g.op("Mul", target, yes), g.op("Mul", g.op("Sub", one, target), no)))


# ---- optimizers: each tensor with its gradient and its state
def _steps(tensors: tuple[Any, ...], kinds: int, step: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The inputs stand by kind (all weights, all gradients, ...), and so do the results."""
    count = len(tensors) // kinds
    updated = [step(*(tensors[k * count + i] for k in range(kinds))) for i in range(count)]
    return tuple(part for kind in zip(*updated, strict=True) for part in kind)


@operator("Adagrad", TRAINING)
def adagrad(
    rate: Tensor, t: Tensor, *tensors: Tensor, norm_coefficient: float = 0.0, decay_factor: float = 0.0,
    epsilon: float = 1e-6,
) -> Any:
    now = rate / (1 + t * decay_factor)

    def step(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = g + norm_coefficient * x
        h = h + g * g
        return x - now * g / (weft.sqrt(h) + epsilon), h

    return _steps(tensors, 3, step)


@operator("Momentum", TRAINING)
def momentum(
    rate: Tensor, t: Tensor, *tensors: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    first = beta if int(t) > 0 else 1.0

    def step(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        g = g + norm_coefficient * x
        v = alpha * v + first * g
        return x - rate * (v if mode == "standard" else g + alpha * v), v

    return _steps(tensors, 3, step)


@operator("Adam", TRAINING)
def adam(
    rate: Tensor, t: Tensor, *tensors: Tensor, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.0,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:
    count = int(t)
    now = rate * (1 - beta**count) ** 0.5 / (1 - alpha**count) if count > 0 else rate

    def step(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = g + norm_coefficient * x
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        moved = x - now * v / (weft.sqrt(h) + epsilon)
        return (1 - norm_coefficient_post) * moved, v, h

    return _steps(tensors, 4, step)
