"""Losses beyond those of the catalogue."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from weft.layers.autocast import with_precision
from weft.layers.factories import on_device
from weft.nn.functions.distances import pairwise_distance
from weft.ops.packet import Namespace, aten
from weft.ops.rules import dims_text, same_dims
from weft.support.errors import ShapeError, StateError, ValueProblem
from weft.tensor.dense import dense_array
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.dtype import DType

__all__ = [
    "binary_cross_entropy", "cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss",
    "linear_cross_entropy", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "poisson_nll_loss",
    "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]


_nn = Namespace("nn")
_REDUCTIONS = ("none", "mean", "sum")


def check_range(
    name: str, what: str, x: Tensor, low: float | None, high: float | None, error: type[Exception] = StateError
) -> None:
    """Raises an error unless all elements lie in [low, high]. Asked of values that are there:
    not in a captured function, nor in transforms, nor of a model's value that is written to a file."""
    values = dense_array(x) if isinstance(x, Tensor) else None
    if values is None:
        return
    if (low is not None and not (values >= low).all()) or (high is not None and not (values <= high).all()):
        raise error(
            f"{name}: all elements of {what} should be "
            f"{f'between {low} and {high}' if high is not None else f'at least {low}'}"
        )


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:
    """Cross entropy of probabilities in [0, 1] with targets in [0, 1]. Raises StateError outside (of capture,
    where the loss is NaN)."""
    check_range("binary_cross_entropy", "input", input, 0, 1)
    check_range("binary_cross_entropy", "target", target, 0, 1)
    return _nn.binary_cross_entropy(input, target, weight, size_average, reduce, reduction)


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`reduction`, unless the two options that it superseded are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean or sum of a loss, or the loss itself ("none"). Raises ValueProblem."""
    if reduction not in _REDUCTIONS:
        raise ValueProblem(f"{reduction} is not a valid value for reduction")
    return loss if reduction == "none" else aten.mean(loss) if reduction == "mean" else aten.sum(loss)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin); target 1 asks for input1 above input2, -1 for the contrary.
    Raises ShapeError unless they have equally many dims."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{dims_text(input1.dims)}, input2: {dims_text(input2.dims)}, target: {dims_text(target.dims)} "
        )
    return reduced(
        aten.clamp_min(-target * (input1 - input2) + margin, 0), reduction_of(size_average, reduce, reduction)
    )


@with_precision("float32")
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1."""
    near = aten.where(aten.ne(target, -1), input, 0.0)
    far = aten.where(aten.ne(target, 1), aten.clamp_min(margin - input, 0), 0.0)
    return reduced(near + far, reduction_of(size_average, reduce, reduction))


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input))."""
    return aten.soft_margin_loss(input, target, reduction=reduction_of(size_average, reduce, reduction))


@with_precision("float32")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1; cos over the last dim of [n, m] (or [m])."""
    if target.ndim > 1:
        raise ShapeError("cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported")
    if input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1:
        raise ShapeError(
            f"cosine_embedding_loss: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors, "
            f"but found inputs with sizes {dims_text(input1.dims)} and {dims_text(input2.dims)}"
        )
    tiny = 1e-12
    product = aten.sum(input1 * input2, -1)
    cosine = product / aten.sqrt((aten.sum(input1 * input1, -1) + tiny) * (aten.sum(input2 * input2, -1) + tiny))
    near = aten.where(aten.eq(target, 1), 1 - cosine, 0.0)
    far = aten.where(aten.eq(target, -1), aten.clamp_min(cosine - margin, 0), 0.0)
    return reduced(near + far, reduction_of(size_average, reduce, reduction))


@with_precision("float32")
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of Poisson counts; full: with Stirling's approximation of log(target!)."""
    loss = aten.exp(input) - target * input if log_input else input - target * aten.log(input + eps)
    if full:
        stirling = target * aten.log(target) - target + 0.5 * aten.log(2 * math.pi * target)
        loss = loss + aten.where(target > 1, stirling, 0.0)
    return reduced(loss, reduction_of(size_average, reduce, reduction))


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """0.5 * (log(var) + (input - target)^2 / var), var at least eps; full: with the constant."""
    variance = var if isinstance(var, Tensor) else aten.full_like(input.detach(), var)
    if variance.ndim == input.ndim - 1:
        variance = aten.unsqueeze(variance, -1)
    if (
        variance.ndim > input.ndim
        or not all(v in (1, d) for v, d in zip(variance.shape, input.shape[input.ndim - variance.ndim :], strict=True))
    ):
        raise ValueProblem("var is of incorrect size")
    check_range("gaussian_nll_loss", "var", variance, 0, None, ValueProblem)
    # clamped for the value only, as the gradient flows past
    floor = variance + aten.clamp_min(eps - variance.detach(), 0)
    loss = 0.5 * (aten.log(floor) + (input - target) ** 2 / floor)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@with_precision("float32")
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with p-norm distances over the last dim."""
    if margin <= 0:
        raise ValueProblem(f"margin must be greater than 0, got {margin}")
    return _triplets(
        anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap,
        reduction_of(size_average, reduce, reduction)
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a distance of one's own."""
    return _triplets(anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction)


def _triplets(
    anchor: Tensor, positive: Tensor, negative: Tensor, distance: Callable[[Tensor, Tensor], Tensor], margin: float,
    swap: bool, reduction: str,
) -> Tensor:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = aten.minimum(far, distance(positive, negative))
    return reduced(aten.clamp_min(near - far + margin, 0), reduction)


def _positive(gap: Tensor) -> Tensor:
    """A margin that is exceeded, else 0; NaN exceeds none."""
    return aten.where(gap > 0, gap, 0)


@with_precision("float32")
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:
    """The mean over classes j other than the target y of weight[y] * max(0, margin - input[y] + input[j])^p.
    input: [n, c] or [c]; target: [n], or [] for one row, whose loss is [] then."""
    if p not in (1, 2):
        raise ValueProblem("only p == 1 and p == 2 supported")
    if reduction not in ("none", "mean", "sum"):
        raise ValueProblem(f"{reduction} is not a valid value for reduction")
    if weight is not None and weight.ndim != 1:
        raise ValueProblem("weight must be one-dimensional")
    rows = aten.reshape(input, (1, -1)) if input.ndim < 2 else input
    if weight is not None and not shape_env.equal(weight.dims[0], rows.dims[1]):
        raise ShapeError(f"inconsistent weight size, expected {rows.dims[1]} but got {dims_text(weight.dims)}")
    classes = aten.reshape(target, (-1, 1))
    gap = _positive(margin - aten.gather(rows, 1, classes) + rows)
    gap = gap if p == 1 else gap * gap
    if weight is not None:
        gap = gap * aten.reshape(aten.index_select(weight, 0, aten.reshape(classes, (-1,))), (-1, 1))
    with on_device(rows.device):
        others = aten.ne(aten.arange(rows.dims[1]), classes)
    loss = aten.sum(aten.where(others, gap, 0), 1) / rows.dims[1]
    return reduced(aten.squeeze(loss, 0) if target.ndim == 0 else loss, reduction_of(size_average, reduce, reduction))


@with_precision("float32")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over the classes y of a row of target (those before its first -1) and the other classes i of max(0,
    1 - input[y] + input[i]), divided by the number of classes. input, target: [n, c] or [c].
    """
    if reduction not in _REDUCTIONS:
        raise ValueProblem(f"multilabel_margin_loss: {reduction} is not a valid value for reduction")
    if input.ndim > 2 or not same_dims(input.dims, target.dims):
        raise ShapeError(
            f"multilabel_margin_loss: Expected target of the size of the input, {dims_text(input.dims)}, "
            f"but got {dims_text(target.dims)}"
        )
    rows, wanted = (aten.reshape(t, (1, -1)) if input.ndim < 2 else t for t in (input, target))
    counts = aten.cumprod(aten.ge(wanted, 0).to(input.dtype), 1)
    places = aten.clamp_min(wanted, 0)
    others = aten.eq(aten.scatter_add(aten.zeros_like(counts), 1, places, counts), 0)
    gap = _positive(1 - aten.unsqueeze(aten.gather(rows, 1, places), 2) + aten.unsqueeze(rows, 1))
    loss = aten.sum(gap * aten.unsqueeze(counts, 2) * aten.unsqueeze(others, 1), (1, 2)) / rows.dims[1]
    return reduced(aten.squeeze(loss, 0) if input.ndim < 2 else loss, reduction_of(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:
    """The mean over classes of the binary cross entropy of logits."""
    if input.ndim < 1:
        raise ShapeError("multilabel_soft_margin_loss: the input must have a dim of classes")
    loss = -(target * aten.logsigmoid(input) + (1 - target) * aten.logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduced(aten.mean(loss, -1), reduction_of(size_average, reduce, reduction))


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch computes linear_cross_entropy piece by piece. weft computes it whole, whatever stands here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """cross_entropy of linear(input, linear_weight, linear_bias). input: [n, i] (or [i]); linear_weight: [c, *k, i];
    linear_bias: [c, *k]; target: classes [n, *k], or probabilities [n, c, *k]; weight: [c]. Raises ShapeError."""
    if input.ndim not in (1, 2):
        raise ShapeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise ShapeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    features = linear_weight.dims[-1]
    if not shape_env.equal(input.dims[-1], features):
        raise ShapeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.dims[-1]} and {features}, respectively"
        )
    outer = linear_weight.dims[:-1]
    if linear_bias is not None and not same_dims(linear_bias.dims, outer):
        raise ShapeError(f"expected linear_bias shape {tuple(outer)}, got {tuple(linear_bias.dims)}")
    if len(outer) > 1 and input.ndim == 1:
        raise ShapeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.dims)} requires batched input, "
            f"(N, {features}), got unbatched input with shape {tuple(input.dims)}"
        )
    dims = (*input.dims[:-1], *outer)
    if ignore_index is not None and same_dims(target.dims, dims):
        raise ShapeError("ignore_index cannot be specified when target contains probabilities")
    flat = None if linear_bias is None else aten.reshape(linear_bias, (-1,))
    logits = aten.linear(input, aten.reshape(linear_weight, (-1, features)), flat)
    return _nn.cross_entropy(
        aten.reshape(logits, dims), target, weight, ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction, label_smoothing=label_smoothing,
    )
