"""Connectionist temporal classification: ctc_loss. Source: Graves et al., "Connectionist temporal classification"
(2006), section 4.

The alignments of a target l of length S are the paths over l' = (blank, l1, blank, l2, ..., blank) of 2 S + 1 states.
Arrays are [t, n, state], logarithms of probabilities in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import DTypeError, OutOfBounds, ShapeError, ValueProblem
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any
_NEVER = -np.inf


def _lengths_type(
    targets: TensorType, input_lengths: TensorType, target_lengths: TensorType, steps: Dim, batch: Dim, classes: Dim,
    blank: int,
) -> TensorType:
    for name, t in (("targets", targets), ("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if t.dtype is not None and (t.dtype.is_differentiable or t.dtype is dt.bool_):
            raise DTypeError(f"{name} must be integral")
    for low, high in ((blank, 0), (classes, blank + 1)):
        shape_env.refuse_less(low, high, lambda: ShapeError("blank must be in label range"))
    return tensor_type(dt.int64, (3, batch), targets.device)


def _refuse_rank(dims: Sequence[Dim]) -> None:
    if len(dims) != 3:
        raise ShapeError(f"ctc_loss: log_probs must be [time, batch, classes], got {dims_text(dims)}")


def _type(
    log_probs: TensorType, targets: TensorType, lengths: TensorType, blank: int, zero_infinity: bool
) -> TensorType:
    if log_probs.dtype is not None and log_probs.dtype not in (dt.float32, dt.float64):
        raise DTypeError(f'"ctc_loss_cpu" not implemented for {log_probs.dtype}')
    if not log_probs.is_complete:
        return tensor_type(log_probs.dtype, None)
    _refuse_rank(log_probs.shape)
    return tensor_type(log_probs.dtype, (log_probs.shape[1],), log_probs.device)


def _states(targets: Array, lengths: Array, firsts: Array, blank: int) -> tuple[Array, Array]:
    """The states l' of every example, padded with blanks: [n, 2 S + 1];
    and where a path may skip the blank before a state."""
    longest = int(lengths.max(initial=0))
    labels = np.full((len(lengths), longest), blank, np.int64)
    flat = targets.ravel()
    if lengths.size and (firsts + lengths).max() > flat.size:
        raise OutOfBounds(f"lengths of _ctc_lengths say that there are more labels than {flat.size}")
    for i, (first, n) in enumerate(zip(firsts, lengths, strict=True)):
        labels[i, :n] = flat[first : first + n]
    states = np.full((len(lengths), 2 * longest + 1), blank, np.int64)
    states[:, 1::2] = labels
    skips = np.zeros(states.shape, np.bool_)
    skips[:, 2:] = (states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2])
    return states, skips


def _moved(x: Array, by: int) -> Array:
    """The states' values `by` places further on."""
    out = np.full_like(x, _NEVER)
    if abs(by) < x.shape[1]:
        if by > 0:
            out[:, by:] = x[:, :-by]
        else:
            out[:, :by] = x[:, -by:]
    return out


def _forward(emitted: Array, skips: Array, target_lengths: Array) -> Array:
    """alpha: the log-probability of all paths that are in a state at a time, its emission included."""
    alpha = np.full(emitted.shape, _NEVER)
    alpha[0, :, 0] = emitted[0, :, 0]
    if emitted.shape[2] > 1:
        alpha[0, :, 1] = np.where(target_lengths > 0, emitted[0, :, 1], _NEVER)
    for t in range(1, len(emitted)):
        before = alpha[t - 1]
        arriving = np.logaddexp(before, _moved(before, 1))
        alpha[t] = np.logaddexp(arriving, np.where(skips, _moved(before, 2), _NEVER)) + emitted[t]
    return alpha


def _backward(emitted: Array, skips: Array, input_lengths: Array, target_lengths: Array) -> Array:
    """beta: the log-probability of all paths from a state at a time to the end, its emission included."""
    beta = np.full(emitted.shape, _NEVER)
    leaving = np.zeros(skips.shape, np.bool_)
    leaving[:, :-2] = skips[:, 2:]
    batch = np.arange(emitted.shape[1])
    for t in range(len(emitted) - 1, -1, -1):
        if t + 1 < len(emitted):
            after = beta[t + 1]
            onward = np.logaddexp(after, _moved(after, -1))
            beta[t] = np.logaddexp(onward, np.where(leaving, _moved(after, -2), _NEVER)) + emitted[t]
        ends = input_lengths == t + 1
        for state in (2 * target_lengths, np.maximum(2 * target_lengths - 1, 0)):
            beta[t, batch[ends], state[ends]] = emitted[t, batch[ends], state[ends]]
    return beta


def _checked_lengths(
    targets: Array, input_lengths: Array, target_lengths: Array, steps: int, batch: int, classes: int, blank: int
) -> Array:
    """The lengths of inputs and targets, and where the labels of each target begin among all: int64 [3, n]."""
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if lengths.shape != (batch,):
            raise ShapeError(f"{name} must be of size batch_size")
        if lengths.size and lengths.min() < 0:
            raise ShapeError(f"Expected {name} to be at least 0, but got {int(lengths.min())}")
    if input_lengths.size and input_lengths.max() > steps:
        raise ShapeError(
            f"Expected input_lengths to have value at most {steps}, but got value {int(input_lengths.max())}"
        )
    held = targets.shape[-1] if targets.ndim else 1
    if (
        (targets.ndim > 1 and targets.shape[0] != batch)
        or (targets.ndim > 1 and target_lengths.size and target_lengths.max() > held)
        or (targets.ndim < 2 and target_lengths.sum() > held)
    ):
        raise ShapeError(f"Expected targets to hold what target_lengths says, but its size is {list(targets.shape)}")
    firsts = np.arange(batch) * held if targets.ndim > 1 else np.cumsum(target_lengths) - target_lengths
    flat = targets.ravel()
    for first, n in zip(firsts, target_lengths, strict=True):
        labels = flat[first : first + n]
        if n and not 0 <= labels.min() <= labels.max() < classes:
            wrong = labels[(labels < 0) | (labels >= classes)][0]
            raise ShapeError(f"Expected targets to be labels of {classes} classes, but got {int(wrong)}")
    return np.stack([input_lengths, target_lengths, firsts]).astype(np.int64, copy=False)


def _spelled(lengths: Array) -> Array:
    """How many labels of each target are looked at: of more labels than steps, which no path spells, one too many."""
    return np.minimum(lengths[1], lengths[0] + 1)


def _paths(log_probs: Array, targets: Array, lengths: Array, blank: int) -> tuple[Array, Array, Array, Array]:
    """The states, where they may be skipped to, their emissions, alpha."""
    target_lengths, firsts = _spelled(lengths), lengths[2]
    states, skips = _states(targets, target_lengths, firsts, blank)
    emitted = np.take_along_axis(
        log_probs.astype(np.float64), np.broadcast_to(states, (len(log_probs), *states.shape)), 2
    )
    return states, skips, emitted, _forward(emitted, skips, target_lengths) if len(emitted) else emitted


def _likelihood(alpha: Array, input_lengths: Array, target_lengths: Array) -> Array:
    """The logarithm of the probability of each target."""
    if not len(alpha):
        return np.where(target_lengths == 0, 0.0, _NEVER)
    batch = np.arange(alpha.shape[1])
    last = alpha[np.maximum(input_lengths - 1, 0), batch]
    whole = last[batch, 2 * target_lengths]
    without = np.where(target_lengths > 0, last[batch, np.maximum(2 * target_lengths - 1, 0)], _NEVER)
    return np.where(input_lengths == 0, np.where(target_lengths == 0, 0.0, _NEVER), np.logaddexp(whole, without))


def _loss(log_probs: Array, targets: Array, lengths: Array, blank: int, zero_infinity: bool) -> Array:
    *_, alpha = _paths(log_probs, targets, lengths, blank)
    loss = -_likelihood(alpha, lengths[0], _spelled(lengths))
    return np.where(zero_infinity & np.isinf(loss), 0, loss).astype(log_probs.dtype)


def _loss_gradient(
    g: Array, log_probs: Array, targets: Array, lengths: Array, blank: int, zero_infinity: bool
) -> Array:
    """exp(log_probs) less the probability of each class at each time, given the target."""
    states, skips, emitted, alpha = _paths(log_probs, targets, lengths, blank)
    input_lengths, target_lengths = lengths[0], _spelled(lengths)
    if not log_probs.size:
        return np.zeros_like(log_probs)
    likelihood = _likelihood(alpha, input_lengths, target_lengths)
    beta = _backward(emitted, skips, input_lengths, target_lengths)
    finite = np.isfinite(emitted)
    posterior = np.exp(np.where(finite, alpha + beta - np.where(finite, emitted, 0), _NEVER) - likelihood[:, None])
    share = np.zeros(log_probs.shape)
    times, batch = np.ogrid[: len(log_probs), : log_probs.shape[1]]
    np.add.at(share, (times[..., None], batch[..., None], states[None]), posterior)
    out = (np.exp(log_probs.astype(np.float64)) - share) * g[:, None]
    out = np.where((np.arange(len(out))[:, None] < input_lengths)[..., None], out, 0)
    return np.where((zero_infinity & np.isinf(likelihood))[:, None], 0, out).astype(log_probs.dtype)


define(
    "aten::_ctc_lengths(Tensor targets, Tensor input_lengths, Tensor target_lengths, int steps, int batch, "
    "int classes, int blank) -> Tensor",
    "The lengths of inputs and of targets, and where each target's labels begin among all: int64 [3, batch]; refuses "
    "lengths and labels that do not fit.",
    type=_lengths_type,
    kernel=_checked_lengths,
    vjp=NOT_DIFFERENTIABLE,
    effect="raises",
    public=(),
)
define(
    "aten::_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor lengths, int blank, "
    "bool zero_infinity) -> Tensor",
    "The gradient of _ctc_loss with respect to log_probs that are a log_softmax.",
    type=lambda grad, log_probs, *rest: log_probs,
    kernel=_loss_gradient,
    vjp={
        "grad": lambda g, grad, log_probs, targets, lengths, blank, zero_infinity: aten.sum(
            g * aten._ctc_loss_backward(aten.ones_like(grad), log_probs, targets, lengths, blank, zero_infinity),
            (0, 2),
        )
    },
    public=(),
)
define(
    "aten::_ctc_loss(Tensor log_probs, Tensor targets, Tensor lengths, int blank=0, bool zero_infinity=False) -> "
    "Tensor",
    "Minus the log-probability of each target: log_probs [t, n, c], lengths of _ctc_lengths. The gradient takes "
    "log_probs to be a log_softmax, as PyTorch's does.",
    type=_type,
    kernel=_loss,
    vjp={
        "log_probs": lambda g, log_probs, targets, lengths, blank, zero_infinity: (
            aten._ctc_loss_backward(g, log_probs, targets, lengths, blank, zero_infinity)
        )
    },
    public=(),
)


def _lengths(value: Any) -> Any:
    """Lengths given as a tensor or as numbers, as an int64 vector, which lies where the loss is computed."""
    if hasattr(value, "dtype"):
        if value.dtype.is_differentiable or value.dtype is dt.bool_:
            raise DTypeError("input_lengths and target_lengths must be integral")
        return aten.reshape(aten.copy(aten.zeros(value.shape, dtype=dt.int64), value), (-1,))
    numbers: Sequence[int] = [value] if isinstance(value, int) else value
    return (
        aten.cat([aten.full((1,), int(n), dtype=dt.int64) for n in numbers]) if len(numbers)
        else aten.zeros((0,), dtype=dt.int64)
    )


def _ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: str,
    zero_infinity: bool,
) -> Any:
    if reduction not in ("none", "mean", "sum"):
        raise ValueProblem(f"{reduction} is not a valid value for reduction")
    single = log_probs.ndim == 2
    scores = aten.unsqueeze(log_probs, 1) if single else log_probs
    wanted = _lengths(target_lengths)
    labels = aten.unsqueeze(targets, 0) if single and targets.ndim == 1 else targets
    _refuse_rank(scores.dims)
    lengths = aten._ctc_lengths(labels, _lengths(input_lengths), wanted, *scores.dims, blank)
    loss = aten._ctc_loss(scores, labels, lengths, blank, zero_infinity)
    if reduction == "mean":
        return aten.mean(loss / aten.to(aten.clamp_min(wanted, 1), loss.dtype))
    if reduction == "sum":
        return aten.sum(loss)
    return aten.squeeze(loss, 0) if single else loss


define(
    'nn::ctc_loss(Tensor log_probs, Tensor targets, Object input_lengths, Object target_lengths, int blank=0, '
    'str reduction="mean", '
    "bool zero_infinity=False) -> Tensor",
    "Minus the log-probability that log_probs [t, n, c], up to each input length, spell the targets ([n, s], "
    "or all in one row).",
    precision="float32",
    decompose=_ctc_loss,
    public=("nn.functional",),
)
