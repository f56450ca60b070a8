"""Random slopes, alpha dropout, Gumbel softmax."""

from __future__ import annotations

import math

from weft.catalogue.widening import cast, widened
from weft.layers.factories import on_device
from weft.ops.packet import aten
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.tensor import Tensor

__all__ = ["alpha_dropout", "feature_alpha_dropout", "gumbel_softmax", "rrelu"]

_ALPHA = 1.6732632423543772848170429916717 * 1.0507009873554804934193349852946  # alpha * scale of SELU


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x where positive, else x times a slope drawn from [lower, upper) (the mean of both when not training).
    Raises ShapeError."""
    if lower > upper:
        raise ShapeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, but they are {lower} and {upper}"
        )
    if training:
        slopes = aten.rand_like(input.detach()) * (upper - lower) + lower
        out = aten.where(input > 0, input, input * slopes)
    else:
        out = aten.leaky_relu(input, (lower + upper) / 2)
    return input.copy_(out) if inplace else out


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Elements set to SELU's negative limit with probability p, then mean and variance restored."""
    return _alpha_dropout(input, tuple(input.dims), p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels of [n, c, ...]. Raises ShapeError."""
    if training and input.ndim < 2:
        raise ShapeError("Feature dropout requires at least 2 dimensions in the input")
    return _alpha_dropout(input, (*input.dims[:2], *(1,) * (input.ndim - 2)), p, training, inplace)


def _alpha_dropout(input: Tensor, mask_dims: tuple[object, ...], p: float, training: bool, inplace: bool) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueProblem(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    with on_device(input.device):
        kept = aten.ge(aten.rand(mask_dims), p).to(input.dtype)
    if p == 1:
        out = input * 0.0
    else:
        scale = 1 / math.sqrt((_ALPHA**2 * p + 1) * (1 - p))
        out = input * (kept * scale) + ((kept - 1) * (_ALPHA * scale) + _ALPHA * scale * p)
    return input.copy_(out) if inplace else out


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the Gumbel-softmax distribution; hard: one-hot forwards, soft backwards.
    Source: Jang et al. (arXiv:1611.01144)."""
    waits = aten.exponential(widened(logits.detach()))
    noise = cast(-aten.log(aten.clamp_min(waits, 1e-38)), logits.dtype)
    soft = aten.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    best = aten.max(soft, dim, True)[1]
    one_hot = aten.scatter(aten.zeros_like(soft.detach()), dim, best, 1.0)
    return one_hot - soft.detach() + soft
