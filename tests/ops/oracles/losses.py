"""Losses: sums over elements written out, and connectionist temporal classification over all alignments."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.ops.oracles.pointwise import log_softmax
from tests.ops.oracles.table import given_floats as given
from weft.catalogue.samples import F, I, P, case

Array = Any


def reduced(x: Array, reduction: str, weight: Any = None) -> Array:
    if weight is not None:
        x = x * weight
    return {
        "none": x, "sum": x.sum(),
        "mean": x.sum() / np.broadcast_to(weight, x.shape).sum() if weight is not None else x.mean(),
    }[reduction]


def bce(p: Array, y: Array, weight: Any, _a: Any, _r: Any, reduction: str) -> Array:
    return plain(
        -(y * np.maximum(np.log(p), -100) + (1 - y) * np.maximum(np.log1p(-p), -100)) * (
            1 if weight is None else weight
        ),
        reduction,
    )


def plain(x: Array, reduction: str) -> Array:
    return {"none": x, "sum": x.sum(), "mean": x.mean()}[reduction]


def bce_logits(x: Array, y: Array, weight: Any, _a: Any, _r: Any, reduction: str, positive: Any) -> Array:
    soft = -(y * (1 if positive is None else positive) * -np.logaddexp(0, -x) + (1 - y) * -np.logaddexp(0, x))
    return plain(soft * (1 if weight is None else weight), reduction)


def nll(x: Array, target: Array, weight: Any, _a: Any, ignore: int, _r: Any, reduction: str) -> Array:
    classes = np.moveaxis(x, 1, -1) if x.ndim > 1 else x
    counted = target != ignore
    at = np.where(counted, target, 0)
    share = counted * (1 if weight is None else weight[at])
    out = -np.take_along_axis(classes, at[..., None], -1)[..., 0] * share
    return out.sum() / share.sum() if reduction == "mean" else plain(out, reduction)


def cross_entropy(
    x: Array, target: Array, weight: Any, _a: Any, ignore: int, _r: Any, reduction: str, smoothing: float
) -> Array:
    logs = log_softmax(x, 1 if x.ndim > 1 else 0)
    if target.dtype.kind == "f":
        axis, count = (1, x.shape[1]) if x.ndim > 1 else (0, x.shape[0])
        target = target * (1 - smoothing) + smoothing / count
        out = -(logs * target * (1 if weight is None else weight.reshape((-1,) + (1,) * (x.ndim - 2)))).sum(axis)
        return out.sum() / (out.size if out.ndim else 1) if reduction == "mean" else plain(out, reduction)
    hard = nll(logs, target, weight, None, ignore, None, reduction)
    if not smoothing:
        return hard
    classes = np.moveaxis(logs, 1, -1) if x.ndim > 1 else logs
    soft = -(classes * (1 if weight is None else weight)).sum(-1) * (target != ignore)
    share = (target != ignore) * (1 if weight is None else weight[np.where(target != ignore, target, 0)])
    smooth = soft.sum() / share.sum() if reduction == "mean" else plain(soft, reduction)
    return (1 - smoothing) * hard + smoothing / classes.shape[-1] * smooth


def huber(x: Array, y: Array, reduction: str, delta: float, weight: Any) -> Array:
    d = np.abs(x - y)
    loss = np.where(d < delta, 0.5 * d**2, delta * (d - 0.5 * delta))
    return plain(loss if weight is None else loss * weight, reduction)


def smooth_l1(x: Array, y: Array, _a: Any, _r: Any, reduction: str, beta: float) -> Array:
    d = np.abs(x - y)
    return plain(np.where(d < beta, 0.5 * d**2 / beta, d - 0.5 * beta) if beta else d, reduction)


def kl_div(x: Array, y: Array, _a: Any, _r: Any, reduction: str, is_log: bool) -> Array:
    out = np.exp(y) * (y - x) if is_log else np.where(y > 0, y * np.log(np.where(y > 0, y, 1)), 0) - y * x
    return out.sum() / x.shape[0] if reduction == "batchmean" else plain(out, reduction)


_PAIR = (F(3, 4), F(3, 4))
given(
    "nn::binary_cross_entropy", bce, case(P(3, 4), P(3, 4)), case(P(3, 4), P(3, 4), P(4), reduction="sum"),
    case(P(3), P(3), reduction="none"),
)
given(
    "nn::binary_cross_entropy_with_logits", bce_logits, case(F(3, 4), P(3, 4)),
    case(F(3, 4), P(3, 4), P(4), reduction="sum", pos_weight=P(4)),
)
given(
    "nn::nll_loss", nll, case(F(3, 4), I(3, high=4)), case(F(2, 3, 4), I(2, 4, high=3), P(3)),
    case(F(3, 4), I(3, high=4), ignore_index=1, reduction="sum"),
)
given(
    "nll_loss nll_loss2d", lambda x, target, ignore, reduction: nll(x, target, None, None, ignore, None, reduction),
    case(F(3, 4), I(3, high=4)), case(F(2, 3, 4), I(2, 4, high=3), 1, reduction="sum"),
)
given(
    "nn::cross_entropy", cross_entropy, case(F(3, 4), I(3, high=4)),
    case(F(2, 3, 4), I(2, 4, high=3), P(3), label_smoothing=0.2), case(F(3, 4), P(3, 4)),
    case(F(3, 4), I(3, high=4), reduction="none"),
)
given("nn::huber_loss", huber, case(*_PAIR), case(*_PAIR, "sum", 0.3), case(*_PAIR, weight=P(3, 4)))
given("nn::smooth_l1_loss", smooth_l1, case(*_PAIR), case(*_PAIR, reduction="none", beta=0.3))
given(
    "nn::l1_loss", lambda x, y, _a, _r, reduction, weight: reduced(np.abs(x - y), reduction, weight), case(*_PAIR),
    case(*_PAIR, reduction="none"), case(*_PAIR, weight=P(3, 4)),
)
given(
    "nn::mse_loss", lambda x, y, _a, _r, reduction, weight: reduced((x - y)**2, reduction, weight), case(*_PAIR),
    case(*_PAIR, reduction="sum"), case(*_PAIR, weight=P(3, 4)),
)
given(
    "nn::kl_div", kl_div, case(F(3, 4), P(3, 4)), case(F(3, 4), F(3, 4), reduction="batchmean", log_target=True),
    case(F(3), P(3), reduction="sum"),
)


# ---- CTC: the probability of a target is the sum over all paths that collapse to it
def path_loss(logs: Array, target: Any, blank: int) -> float:
    total = -np.inf
    for path in itertools.product(range(logs.shape[1]), repeat=len(logs)):
        if [c for c, _ in itertools.groupby(path) if c != blank] == list(target):
            total = np.logaddexp(total, sum(logs[t, c] for t, c in enumerate(path)))
    return -total


def ctc(
    logs: Array, targets: Array, lengths: Any, target_lengths: Any, blank: int, zero_infinity: bool = False
) -> Array:
    out = np.array([
        path_loss(logs[:t, n], targets[n, :u], blank)
        for n, (t, u) in enumerate(zip(np.asarray(lengths), np.asarray(target_lengths), strict=True))
    ])
    return np.where(np.isinf(out), 0, out) if zero_infinity else out


def ctc_reduced(
    logs: Array, targets: Array, lengths: Any, target_lengths: Any, blank: int, reduction: str, zero_infinity: bool
) -> Array:
    out = ctc(logs, targets, lengths, target_lengths, blank, zero_infinity)
    return (out / np.maximum(np.asarray(target_lengths), 1)).mean() if reduction == "mean" else plain(out, reduction)


def ctc_of_lengths(logs: Array, targets: Array, lengths: Any, blank: int, zero_infinity: bool) -> Array:
    return ctc(logs, targets, *lengths[:2], blank, zero_infinity)


def ctc_backward(grad: Array, logs: Array, targets: Array, lengths: Any, blank: int, zero_infinity: bool) -> Array:
    """The gradient with respect to logits: each class's probability less its share in the paths
    that collapse to the target."""
    out = np.zeros_like(logs)
    for n, (t, u, _) in enumerate(zip(*lengths, strict=True)):
        share, rows = np.zeros((int(t), logs.shape[2])), np.arange(int(t))
        for path in itertools.product(range(logs.shape[2]), repeat=int(t)):
            if [c for c, _ in itertools.groupby(path) if c != blank] == list(targets[n, :u]):
                share[rows, path] += np.exp(logs[rows, n, path].sum())
        out[:t, n] = grad[n] * (np.exp(logs[:t, n]) - share / np.exp(-path_loss(logs[:t, n], targets[n, :u], blank)))
    return out


def _ctc(rng: Any) -> tuple[Any, ...]:
    return log_softmax(rng.uniform(-2, 2, (4, 2, 3)), 2), np.array([[1, 2], [2, 0]]), np.array([[4, 3], [2, 1], [0, 2]])


given("_ctc_loss", ctc_of_lengths, lambda rng: [(_ctc(rng), {})])
given(
    "nn::ctc_loss", ctc_reduced,
    lambda rng: [((*_ctc(rng)[:2], (4, 3), (2, 1)), {}), ((*_ctc(rng)[:2], (4, 3), (2, 1)), {"reduction": "sum"})],
)
given(
    "_ctc_lengths", lambda targets, inputs, labels, *rest: np.stack([inputs, labels, np.arange(2) * targets.shape[1]]),
    lambda rng: [((_ctc(rng)[1], np.array([4, 3]), np.array([2, 1]), 4, 2, 3, 0), {})],
)
given("_ctc_loss_backward", ctc_backward, lambda rng: [((rng.uniform(0.5, 1, 2), *_ctc(rng), 0, False), {})])
