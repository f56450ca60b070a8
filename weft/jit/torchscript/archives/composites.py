"""Operators of PyTorch that weft composes of others, with the arguments that TorchScript's programs give them.

Each is a scripted function; its name is the operator's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict  # noqa: UP035  (as scripts write them)

import weft.nn.functional as F
from weft.jit.program import Program
from weft.jit.script.frontend.compile import compile_python
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor

COMPOSITES: Dict[str, Callable[..., Any]] = {}  # noqa: UP006


def composite(name: str) -> Program | None:
    """The program of an operator that is composed here; None for others."""
    function = COMPOSITES.get(name)
    return None if function is None else compile_python(function)


def _composed(function: Callable[..., Any]) -> Callable[..., Any]:
    COMPOSITES[f"aten::{function.__name__}"] = function
    return function


def _named(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: this function is each of these operators, which differ in the number of dims."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        COMPOSITES.update({f"aten::{name}": function for name in names})
        return function

    return register


def reduction_name(reduction: int) -> str:
    """What `reduction` is called in weft.nn.functional."""
    if reduction == 0:
        return "none"
    return "mean" if reduction == 1 else "sum"


# ---- pooling, padding, resizing
@_composed
def adaptive_max_pool1d(self: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    return F.adaptive_max_pool1d(self, output_size, return_indices=True)  # type: ignore[no-any-return]


@_composed
def adaptive_max_pool2d(self: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    return F.adaptive_max_pool2d(self, output_size, return_indices=True)  # type: ignore[no-any-return]


@_composed
def adaptive_max_pool3d(self: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    return F.adaptive_max_pool3d(self, output_size, return_indices=True)  # type: ignore[no-any-return]


@_named("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(self: Tensor, padding: list[int]) -> Tensor:
    return F.pad(self, padding, "reflect")


@_named("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(self: Tensor, padding: list[int]) -> Tensor:
    return F.pad(self, padding, "replicate")


@_composed
def _pad_circular(self: Tensor, pad: list[int]) -> Tensor:
    return F.pad(self, pad, "circular")


def _resized(
    x: Tensor, size: list[int] | None, scales: list[float] | None, mode: str, align: bool | None
) -> Tensor:
    if size is not None:
        return F.interpolate(x, size=size, mode=mode, align_corners=align)
    return F.interpolate(x, scale_factor=scales, mode=mode, align_corners=align)


@_named("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(
    input: Tensor, output_size: list[int] | None, scale_factors: list[float] | None = None
) -> Tensor:
    return _resized(input, output_size, scale_factors, "nearest", None)


@_named("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def _upsample_nearest_exact(
    input: Tensor, output_size: list[int] | None, scale_factors: list[float] | None = None
) -> Tensor:
    return _resized(input, output_size, scale_factors, "nearest-exact", None)


@_composed
def upsample_linear1d(
    input: Tensor, output_size: list[int] | None, align_corners: bool, scale_factors: list[float] | None = None
) -> Tensor:
    return _resized(input, output_size, scale_factors, "linear", align_corners)


@_composed
def upsample_bilinear2d(
    input: Tensor, output_size: list[int] | None, align_corners: bool, scale_factors: list[float] | None = None
) -> Tensor:
    return _resized(input, output_size, scale_factors, "bilinear", align_corners)


@_composed
def upsample_bicubic2d(
    input: Tensor, output_size: list[int] | None, align_corners: bool, scale_factors: list[float] | None = None
) -> Tensor:
    return _resized(input, output_size, scale_factors, "bicubic", align_corners)


@_composed
def upsample_trilinear3d(
    input: Tensor, output_size: list[int] | None, align_corners: bool, scale_factors: list[float] | None = None
) -> Tensor:
    return _resized(input, output_size, scale_factors, "trilinear", align_corners)


@_composed
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    mode = "bilinear" if interpolation_mode == 0 else "nearest" if interpolation_mode == 1 else "bicubic"
    padding = "zeros" if padding_mode == 0 else "border" if padding_mode == 1 else "reflection"
    return F.grid_sample(input, grid, mode, padding, align_corners)


@_composed
def affine_grid_generator(theta: Tensor, size: list[int], align_corners: bool) -> Tensor:
    return F.affine_grid(theta, size, align_corners)


@_composed
def im2col(
    self: Tensor, kernel_size: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Tensor:
    return F.unfold(self, kernel_size, dilation, padding, stride)


@_composed
def col2im(
    self: Tensor, output_size: list[int], kernel_size: list[int], dilation: list[int], padding: list[int],
    stride: list[int],
) -> Tensor:
    return F.fold(self, output_size, kernel_size, dilation, padding, stride)


# ---- layers
@_composed
def _convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
    transposed: bool, output_padding: list[int], groups: int, benchmark: bool = False, deterministic: bool = False,
    cudnn_enabled: bool = True, allow_tf32: bool = True,
) -> Tensor:
    if transposed:
        if weight.dim() == 3:
            return F.conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation)
        if weight.dim() == 4:
            return F.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)
        return F.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation)
    if weight.dim() == 3:
        return F.conv1d(input, weight, bias, stride, padding, dilation, groups)
    if weight.dim() == 4:
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return F.conv3d(input, weight, bias, stride, padding, dilation, groups)


@_composed
def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
    transposed: bool, output_padding: list[int], groups: int,
) -> Tensor:
    return _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)  # type: ignore[no-any-return]


@_composed
def _convolution_mode(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: str, dilation: list[int],
    groups: int,
) -> Tensor:
    if weight.dim() == 3:
        return F.conv1d(input, weight, bias, stride, padding, dilation, groups)
    if weight.dim() == 4:
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return F.conv3d(input, weight, bias, stride, padding, dilation, groups)


@_composed
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    dims: list[int] = []
    for d in range(v.dim()):
        if d != dim:
            dims.append(d)
    return v * (g / aten.linalg_vector_norm(v, 2.0, dims, True))  # type: ignore[no-any-return]


@_composed
def _native_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    wq, wk, wv = qkv_weight.chunk(3)
    bq, bk, bv = qkv_bias.chunk(3)
    n, length = query.size(0), query.size(1)
    size = embed_dim // num_head
    q = F.linear(query, wq, bq).view([n, length, num_head, size]).transpose(1, 2)
    k = F.linear(key, wk, bk).view([n, key.size(1), num_head, size]).transpose(1, 2)
    v = F.linear(value, wv, bv).view([n, value.size(1), num_head, size]).transpose(1, 2)
    scores = aten.matmul(q * float(size) ** -0.5, k.transpose(2, 3))
    if mask is not None:
        if mask_type is not None and mask_type == 1:  # one row for each sequence: which keys are padding
            mask = mask.view([n, 1, 1, key.size(1)])
        scores = scores.masked_fill(mask, float("-inf"))
    weights = F.softmax(scores, -1)
    out = F.linear(aten.matmul(weights, v).transpose(1, 2).reshape([n, length, embed_dim]), proj_weight, proj_bias)
    if not need_weights:
        return out, query.new_zeros([0])
    return out, weights.mean([1]) if average_attn_weights else weights


@_composed
def _transformer_encoder_layer_fwd(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor,
    proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor,
    norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor,
    ffn_bias_2: Tensor, mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:
    x = src
    before = F.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps) if norm_first else x
    attended = _native_multi_head_attention(
        before, before, before, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True,
        mask_type,
    )[0]
    x = x + attended
    if not norm_first:
        x = F.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    before = F.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps) if norm_first else x
    hidden = F.linear(before, ffn_weight_1, ffn_bias_1)
    hidden = F.gelu(hidden) if use_gelu else F.relu(hidden)
    x = x + F.linear(hidden, ffn_weight_2, ffn_bias_2)
    return x if norm_first else F.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)


@_composed
def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Whether a layer may go on with nested tensors, which weft has none of."""
    return False


# ---- losses
@_composed
def l1_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return F.l1_loss(self, target, reduction=reduction_name(reduction))


@_composed
def mse_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return F.mse_loss(self, target, reduction=reduction_name(reduction))


@_composed
def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    return F.smooth_l1_loss(self, target, reduction=reduction_name(reduction), beta=beta)


@_composed
def huber_loss(self: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    return F.huber_loss(self, target, reduction=reduction_name(reduction), delta=delta)


@_composed
def soft_margin_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return F.soft_margin_loss(self, target, reduction=reduction_name(reduction))


@_composed
def kl_div(self: Tensor, target: Tensor, reduction: int = 1, log_target: bool = False) -> Tensor:
    return F.kl_div(self, target, reduction=reduction_name(reduction), log_target=log_target)


@_composed
def nll_loss_nd(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    return F.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=reduction_name(reduction))


@_composed
def nll_loss(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    return F.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=reduction_name(reduction))


@_composed
def cross_entropy_loss(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    return F.cross_entropy(
        self, target, weight, ignore_index=ignore_index, reduction=reduction_name(reduction),
        label_smoothing=label_smoothing,
    )


@_composed
def binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    return F.binary_cross_entropy(self, target, weight, reduction=reduction_name(reduction))


@_composed
def binary_cross_entropy_with_logits(
    self: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    return F.binary_cross_entropy_with_logits(
        self, target, weight, reduction=reduction_name(reduction), pos_weight=pos_weight
    )


@_composed
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0,
    reduction: int = 1, zero_infinity: bool = False,
) -> Tensor:
    return F.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, reduction_name(reduction), zero_infinity
    )


@_composed
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=reduction_name(reduction))


@_composed
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=reduction_name(reduction))


@_composed
def hinge_embedding_loss(self: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    return F.hinge_embedding_loss(self, target, margin, reduction=reduction_name(reduction))


@_composed
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: int = 1,
) -> Tensor:
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=reduction_name(reduction)
    )


# ---- older names
@_composed
def frobenius_norm(self: Tensor, dim: list[int], keepdim: bool = False) -> Tensor:
    return aten.linalg_vector_norm(self, 2.0, dim, keepdim)  # type: ignore[no-any-return]


@_composed
def cholesky(self: Tensor, upper: bool = False) -> Tensor:
    factor = aten.linalg_cholesky(self)
    return factor.mT.contiguous() if upper else factor  # type: ignore[no-any-return]
