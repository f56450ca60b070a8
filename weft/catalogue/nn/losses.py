"""Losses, with the signatures of nn.functional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.catalogue.nn.reduced_losses import picked, reduced
from weft.catalogue.samples import F, case, draw
from weft.catalogue.widening import cast
from weft.ops.op import Rule, define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims, dims_text, same_dims
from weft.support.errors import DTypeError, ShapeError, ValueProblem
from weft.support.warn import warn
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.promotion import promote

_OLD = "bool? size_average=None, bool? reduce=None"  # superseded by reduction, still accepted


def _loss(schema: str, doc: str, rule: Rule) -> None:
    define(f"nn::{schema} -> Tensor", doc, precision="float32", decompose=rule, public=("nn.functional",))


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueProblem(f"{reduction} is not a valid value for reduction")
    return reduction


# ---- classes


def _nll_loss(
    input: Any, target: Any, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str
) -> Any:
    how = _reduction(size_average, reduce, reduction)
    if target.dtype is not dt.int64 and target.dtype is not dt.uint8:
        raise DTypeError(f"expected target dtype to be Long or Byte, but found {target.dtype}")
    if input.ndim == 0:
        raise ShapeError("input tensor should be at least 1D")
    _check_classes(input, target, 0 if input.ndim == 1 else 1, weight)
    return _picked(input, target, weight, ignore_index, how)


def _check_classes(input: Any, target: Any, dim: int, weight: Any) -> None:
    wanted = (*input.dims[:dim], *input.dims[dim + 1 :])
    if len(wanted) != target.ndim or not same_dims(wanted, target.dims):
        if (
            input.ndim > 1 and target.ndim and input.ndim == target.ndim + 1
            and not shape_env.equal(input.dims[0], target.dims[0])
        ):
            raise ValueProblem(
                f"Expected input batch_size ({input.dims[0]}) to match target batch_size ({target.dims[0]})."
            )
        raise ShapeError(f"size mismatch (got input: {dims_text(input.dims)} , target: {dims_text(target.dims)})")
    if weight is not None and (weight.ndim != 1 or not shape_env.equal(weight.dims[0], input.dims[dim])):
        raise ShapeError(
            f"weight tensor should be defined either for all {input.dims[dim]} classes or no classes but got weight "
            f"tensor of shape: {dims_text(weight.dims)}"
        )


def _picked(input: Any, target: Any, weight: Any, ignore_index: int, how: str) -> Any:
    if weight is not None:
        return picked(input, target, weight, ignore_index, how)
    return (aten.nll_loss if input.ndim < 3 else aten.nll_loss2d)(input, target, ignore_index, reduction=how)


_loss(
    "nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100, "
    "bool? reduce=None, "
    'str reduction="mean")',
    "Minus the log-probability of each target class; input [n, c, ...], target [n, ...].",
    _nll_loss,
)


def _cross_entropy(
    input: Any, target: Any, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str,
    label_smoothing: float,
) -> Any:
    how = _reduction(size_average, reduce, reduction)
    if isinstance(label_smoothing, float) and not 0 <= label_smoothing <= 1:
        raise ShapeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.ndim == 0:
        raise ShapeError("cross_entropy: input should be at least 1D")
    dim = 0 if input.ndim == 1 else 1
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(input, target, weight, how, label_smoothing, dim)
    if target.dtype is not dt.int64 and target.dtype is not dt.uint8:
        raise DTypeError(f"expected scalar type Long but found {target.dtype}")
    _check_classes(input, target, dim, weight)
    logs = aten._log_softmax(input, dim, None)
    plain = _picked(logs, target, weight, ignore_index, how)
    if isinstance(label_smoothing, float) and label_smoothing == 0.0:
        return plain
    smooth = _smooth_part(logs, target, weight, ignore_index, how, dim)
    classes = input.dims[dim]
    return plain * (1 - label_smoothing) + smooth * label_smoothing / classes


def _smooth_part(logs: Any, target: Any, weight: Any, ignore_index: int, how: str, dim: int) -> Any:
    """Minus the sum of log-probabilities over classes, weighted, reduced like the plain part."""
    ignored = target == ignore_index
    terms = logs if weight is None else logs * _along(weight, logs.ndim, dim)
    loss = aten.masked_fill(-aten.sum(terms, dim), ignored, 0)
    if how != "mean":
        return reduced(loss, how)
    if weight is None:
        return aten.sum(loss) / cast(aten.sum(aten.logical_not(ignored)), logs.dtype)
    safe = aten.masked_fill(cast(target, dt.int64), ignored, 0)
    return aten.sum(loss) / aten.sum(aten.masked_fill(aten.index(weight, (safe,)), ignored, 0))


def _along(vector: Any, ndim: int, dim: int) -> Any:
    return aten.reshape(vector, tuple(vector.dims[0] if i == dim else 1 for i in range(ndim)))


def _soft_cross_entropy(input: Any, target: Any, weight: Any, how: str, label_smoothing: float, dim: int) -> Any:
    if input.ndim != target.ndim or not same_dims(input.dims, target.dims):
        raise ShapeError(
            f"input and target must have the same size when target holds probabilities, got {dims_text(input.dims)} "
            f"and {dims_text(target.dims)}"
        )
    if not (isinstance(label_smoothing, float) and label_smoothing == 0.0):
        # a symbolic number of classes, perhaps
        target = target * (1 - label_smoothing) + aten.full((), label_smoothing, dtype=dt.float64) / input.dims[dim]
    terms = aten._log_softmax(input, dim, None) * target
    if weight is not None:
        terms = terms * _along(weight, input.ndim, dim)
    if how == "mean":
        return -aten.sum(terms) / dm.product((*input.dims[:dim], *input.dims[dim + 1 :]))
    return -aten.sum(terms) if how == "sum" else -aten.sum(terms, dim)


_loss(
    "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100, "
    "bool? reduce=None, "
    'str reduction="mean", float label_smoothing=0.0)',
    "Cross entropy of softmax(input) over dim 1: input [n, c, ...], target class indices [n, ...] or probabilities "
    "[n, c, ...].",
    _cross_entropy,
)

# ---- differences


def _are_seen_to_differ(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes differ, sizes that are symbols as they are in the example: nothing is asked about them."""
    if len(a) != len(b):
        return True
    try:
        return [shape_env.example(d) for d in a] != [shape_env.example(d) for d in b]
    except KeyError:  # a size that only a run finds
        return False


def _pair(input: Any, target: Any) -> tuple[Any, Any]:
    if _are_seen_to_differ(input.dims, target.dims):
        warn(
            f"Using a target size ({dims_text(target.dims)}) that is different to the input size "
            f"({dims_text(input.dims)}). This will likely lead to "
            "incorrect results due to broadcasting. Please ensure they have the same size."
        )
    dims = broadcast_dims("loss", [tuple(input.dims), tuple(target.dims)])
    return _expanded(input, dims), _expanded(target, dims)


def _expanded(x: Any, dims: tuple[Dim, ...]) -> Any:
    return x if tuple(x.dims) == dims else aten.expand(x, dims)


def _weighted(loss: Any, weight: Any, input: Any) -> Any:
    """Raises ValueProblem unless there is a weight for each element of the input."""
    if weight.ndim != input.ndim or not same_dims(weight.dims, input.dims):
        raise ValueProblem("Weights and input must have the same size.")
    return loss * weight


def _weighted_average(loss: Any, weight: Any, input: Any, how: str) -> Any:
    """Reduced, where the mean is the sum over the sum of the weights."""
    weighted = _weighted(loss, weight, input)
    return aten.sum(weighted) / aten.sum(weight) if how == "mean" else reduced(weighted, how)


def _mse(
    input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, weight: Any
) -> Any:
    how = _reduction(size_average, reduce, reduction)
    first, second = _pair(input, target)
    if weight is None:
        return aten.mse_loss(first, second, reduction=how)
    return _weighted_average(aten.mse_loss(first, second, reduction="none"), weight, input, how)


def _l1(
    input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, weight: Any
) -> Any:
    how = _reduction(size_average, reduce, reduction)
    size = aten.abs(aten.sub(*_pair(input, target)))
    return reduced(size, how) if weight is None else _weighted_average(size, weight, input, how)


_loss(
    f'mse_loss(Tensor input, Tensor target, {_OLD}, str reduction="mean", Tensor? weight=None)',
    "(input - target)^2. The mean of weighted losses is their sum over the sum of the weights.",
    _mse,
)
_loss(
    f'l1_loss(Tensor input, Tensor target, {_OLD}, str reduction="mean", Tensor? weight=None)',
    "|input - target|. The mean of weighted losses is their sum over the sum of the weights.",
    _l1,
)


def _smooth_l1(input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, beta: float) -> Any:
    how = _reduction(size_average, reduce, reduction)
    if isinstance(beta, (int, float)) and beta < 0:
        raise ShapeError("smooth_l1_loss does not support negative values for beta.")
    if isinstance(beta, (int, float)) and beta == 0:
        return reduced(aten.abs(aten.sub(*_pair(input, target))), how)
    return aten.smooth_l1_loss(*_pair(input, target), beta, reduction=how)


_loss(
    f'smooth_l1_loss(Tensor input, Tensor target, {_OLD}, str reduction="mean", float beta=1.0)',
    "Half the squared difference over beta where it is below beta, else the difference less beta / 2.",
    _smooth_l1,
)


def _huber(input: Any, target: Any, reduction: str, delta: float, weight: Any) -> Any:
    if isinstance(delta, (int, float)) and delta <= 0:
        raise ShapeError("huber_loss does not support non-positive values for delta.")
    how = _reduction(None, None, reduction)
    first, second = _pair(input, target)
    if weight is None:
        return aten.huber_loss(first, second, delta, reduction=how)
    return reduced(_weighted(aten.huber_loss(first, second, delta, reduction="none"), weight, input), how)


_loss(
    'huber_loss(Tensor input, Tensor target, str reduction="mean", float delta=1.0, Tensor? weight=None)',
    "Half the squared difference where it is at most delta, else delta times (difference - delta / 2).",
    _huber,
)

# ---- distributions


def _kl_div(input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, log_target: bool) -> Any:
    if reduction == "batchmean":
        total = _kl_div(input, target, None, None, "sum", log_target)
        return total if input.ndim == 0 else total / input.dims[0]
    how = _reduction(size_average, reduce, reduction)
    if log_target:
        return reduced(aten.exp(target) * (target - input), how)
    return reduced(aten.xlogy(target, target) - target * input, how)


_loss(
    f'kl_div(Tensor input, Tensor target, {_OLD}, str reduction="mean", bool log_target=False)',
    "target * (log(target) - input), for input in log space: the Kullback-Leibler divergence.",
    _kl_div,
)


def _binary_cross_entropy(input: Any, target: Any, weight: Any, size_average: Any, reduce: Any, reduction: str) -> Any:
    how = _reduction(size_average, reduce, reduction)
    if input.ndim != target.ndim or not same_dims(input.dims, target.dims):
        raise ValueProblem(
            f"Using a target size ({dims_text(target.dims)}) that is different to the input size "
            f"({dims_text(input.dims)}) is deprecated. Please ensure they have the same size."
        )
    if weight is None:
        return aten.binary_cross_entropy(input, target, reduction=how)
    return reduced(aten.binary_cross_entropy(input, target, reduction="none") * weight, how)


_loss(
    f'binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, {_OLD}, str reduction="mean")',
    "Cross entropy of probabilities in [0, 1] with targets in [0, 1].",
    _binary_cross_entropy,
)


def _bce_with_logits(
    input: Any, target: Any, weight: Any, size_average: Any, reduce: Any, reduction: str, pos_weight: Any
) -> Any:
    how = _reduction(size_average, reduce, reduction)
    if input.ndim != target.ndim or not same_dims(input.dims, target.dims):
        raise ValueProblem(
            f"Target size ({dims_text(target.dims)}) must be the same as input size ({dims_text(input.dims)})"
        )
    if weight is None and pos_weight is None:
        return aten.binary_cross_entropy_with_logits(input, target, reduction=how)
    factor = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * input - factor * aten.log_sigmoid(input)
    return reduced(loss if weight is None else loss * weight, how)


_loss(
    f'binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, {_OLD}, str reduction="mean", '
    "Tensor? pos_weight=None)",
    "Binary cross entropy of sigmoid(input), exact for large |input|.",
    _bce_with_logits,
)

# ---- similarity and distances


def _cosine_similarity(x1: Any, x2: Any, dim: int, eps: float) -> Any:
    if isinstance(eps, (int, float)) and eps < 0:
        raise ShapeError(f"cosine_similarity: eps must be non-negative, got: {eps}")
    common = promote(x1.dtype, x2.dtype)
    if not common.is_differentiable:
        raise DTypeError(f"cosine_similarity: expected common dtype to be floating point, yet common dtype is {common}")
    first, second = _pair(cast(x1, common), cast(x2, common))
    a = aten.clamp_min(aten.linalg_vector_norm(first, 2, [dim], True), eps)
    b = aten.clamp_min(aten.linalg_vector_norm(second, 2, [dim], True), eps)
    return aten.sum((first / a) * (second / b), dim)


define(
    "aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    "The cosine of the angle between vectors along dim.",
    decompose=_cosine_similarity,
    public=("weft", "nn.functional"),
    samples=draw(case(F(3, 4), F(3, 4))),
)
