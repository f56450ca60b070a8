"""Layers' functions under `weft` itself, as PyTorch's own operators take them: arguments in another order than in
`weft.nn.functional`, and numbers in place of words (reduction 0: none, 1: mean, 2: sum)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft.nn.functional as F
from weft.catalogue.nn.row_norms import limit_rows
from weft.ops.packet import aten
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType, bool_

_REDUCTIONS = ("none", "mean", "sum")
_MODES = ("sum", "mean", "max")  # of embedding_bag


def _word(number: int, words: tuple[str, ...] = _REDUCTIONS) -> str:
    """Raises ValueProblem."""
    if not 0 <= number < len(words):
        raise ValueProblem(f"expected a number from 0 to {len(words) - 1} ({', '.join(words)}), got {number}")
    return words[number]


# ---- losses


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight, reduction=_word(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_word(reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_word(reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: int = 1,
) -> Tensor:
    """`nn.functional.triplet_margin_loss`."""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_word(reduction))


def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div`."""
    return F.kl_div(input, target, reduction=_word(reduction), log_target=log_target)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss`."""
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _word(reduction), zero_infinity)


# ---- dropout


def _drop(name: str, function: Callable[..., Tensor], doc: str) -> Callable[..., Tensor]:
    is_inplace = name.endswith("_")

    def dropped(input: Tensor, p: float, train: bool) -> Tensor:
        return function(input, p, train, is_inplace)

    dropped.__name__ = dropped.__qualname__ = name  # (scripts find it again by its name)
    dropped.__doc__ = doc
    return dropped


def _feature_dropout(input: Tensor, p: float, train: bool, inplace: bool) -> Tensor:
    if input.ndim < 2:
        raise ShapeError("Feature dropout requires at least 2 dimensions in the input")
    if not train:
        return input
    ones = aten.new_ones(input, (*input.dims[:2], *(1,) * (input.ndim - 2)))
    out = input * aten.dropout(ones, p, True)
    return input.copy_(out) if inplace else out


alpha_dropout = _drop("alpha_dropout", F.alpha_dropout, "`nn.functional.alpha_dropout`.")
alpha_dropout_ = _drop("alpha_dropout_", F.alpha_dropout, "`nn.functional.alpha_dropout`, in place.")
dropout_ = _drop("dropout_", F.dropout, "`nn.functional.dropout`, in place.")
feature_dropout = _drop("feature_dropout", _feature_dropout, "Whole channels of [n, c, ...] zero with probability p.")
feature_dropout_ = _drop("feature_dropout_", _feature_dropout, "`feature_dropout`, in place.")
feature_alpha_dropout = _drop("feature_alpha_dropout", F.feature_alpha_dropout, "`nn.functional`'s.")
feature_alpha_dropout_ = _drop("feature_alpha_dropout_", F.feature_alpha_dropout, "`nn.functional`'s, in place.")


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Elements set to zero with probability p, the others over 1 - p; and which were kept."""
    if train is False:
        return aten.clone(input), aten.ones_like(input, dtype=bool_)
    kept = aten.ne(aten.dropout(aten.ones_like(input), p, True), 0)
    return input * kept * (0.0 if p == 1 else 1 / (1 - p)), kept


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """`nn.functional.rrelu`. Raises ValueProblem for a generator: the drawing is that of the process."""
    _own_generator(generator)
    return F.rrelu(input, lower, upper, training)


def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """`nn.functional.rrelu`, in place."""
    _own_generator(generator)
    return F.rrelu(input, lower, upper, training, True)


def _own_generator(generator: Any) -> None:
    if generator is not None:
        raise ValueProblem("rrelu: weft draws from its default generator; give none")


# ---- windows


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """`nn.functional.adaptive_max_pool1d`: the greatest elements, and where they are."""
    return F.adaptive_max_pool1d(input, output_size, return_indices=True)


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Tensor:
    """`nn.functional.conv1d` and its like, by the rank of the weight: [o, c / groups, ...]. Raises ShapeError."""
    rank = weight.ndim - 2
    if rank not in (1, 2, 3):
        raise ShapeError(f"convolution: expected a weight of 3, 4 or 5 dims, got {weight.ndim}")
    if transposed:
        spread = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
        return spread(input, weight, bias, stride, padding, output_padding, groups, dilation)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return convolve(input, weight, bias, stride, padding, dilation, groups)


# ---- tables


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The rows of a table that `indices` names scaled down to norm max_norm, in place."""
    limit_rows(input, indices, max_norm, norm_type)
    return input


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag` of indices [m]; the bag of each index; how many indices each bag has; and for mode
    2 (max) the row of each greatest element, [b, d], else what came before."""
    word = _word(mode, _MODES)
    out = F.embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq, mode=word, sparse=sparse,
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=padding_idx,
    )
    starts = aten.narrow(offsets, 0, 0, out.dims[0])
    bag = aten.searchsorted(starts, aten.arange(indices.dims[0], dtype=offsets.dtype), right=True) - 1
    counted = aten.ones_like(bag) if padding_idx is None else aten.to(aten.ne(indices, padding_idx), bag.dtype)
    sizes = aten.index_add(aten.zeros((out.dims[0],), dtype=bag.dtype), 0, bag, counted)
    if word != "max":
        return out, bag, sizes, sizes
    rows = aten.index(weight, (indices,))
    is_greatest = aten.eq(rows, aten.index(out, (bag,)))
    places = aten.where(is_greatest, aten.unsqueeze(aten.arange(indices.dims[0]), 1), indices.dims[0])
    first = aten.scatter_reduce(
        aten.zeros(out.dims, dtype=places.dtype), 0, aten.expand(aten.unsqueeze(bag, 1), places.dims), places, "amin",
        include_self=False,
    )
    return out, bag, sizes, aten.index(indices, (aten.clamp_max(first, indices.dims[0] - 1),))


# ---- norms


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.batch_norm`, and the mean and 1 / standard deviation of each channel (empty unless training)."""
    out = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        nothing = aten.new_zeros(input, (0,))
        return out, nothing, aten.clone(nothing)
    dims = tuple(i for i in range(input.ndim) if i != 1)
    variance, mean = aten.var_mean(input, dims, correction=0)
    return out, mean, aten.rsqrt(variance + eps)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.group_norm` of [n, c, ...], and the mean and 1 / standard deviation of each group: [n, groups]."""
    out = F.group_norm(input, group, weight, bias, eps)
    rows = aten.reshape(input, (N, group, C // group * HxW))
    variance, mean = aten.var_mean(rows, (2,), correction=0)
    return out, mean, aten.rsqrt(variance + eps)


def native_norm(
    input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """`weft.norm`, 2 by default."""
    return aten.norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype)


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over `dim`."""
    return aten.norm(input, "fro", dim, keepdim)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices over two dims."""
    if isinstance(dim, bool):  # (the overload without dim)
        dim, keepdim = (-2, -1), dim
    return aten.norm(input, "nuc", tuple(dim), keepdim)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dims but one, which stay as dims of size 1; -1: over all."""
    if dim == -1:
        return aten.norm(v, pow)
    return aten.norm(v, pow, tuple(i for i in range(v.ndim) if i != dim), True)
