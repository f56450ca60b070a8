"""multi_head_attention_forward: attention over several heads, with PyTorch's masks."""

from __future__ import annotations

import math
from typing import Any

from weft.ops.packet import aten
from weft.support.errors import ShapeError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

__all__ = ["multi_head_attention_forward"]


def additive(mask: Tensor | None, dtype: Any) -> Tensor | None:
    """A mask to add to scores: -inf where a boolean mask is True."""
    if mask is None or mask.dtype is not dt.bool_:
        return mask
    return aten.where(mask, aten.full((), -math.inf, dtype=dtype), aten.zeros((), dtype=dtype))


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """query [l, n, e], key and value [s, n, ..] (or without n): the output [l, n, e] and, if wanted,
    the weights [n, l, s] or [n, heads, l, s].

    Masks: True hides, floats are added. attn_mask [l, s] or [n * heads, l, s], key_padding_mask [n, s].
    """
    is_single = query.ndim == 2
    if is_single:
        query, key, value = (aten.unsqueeze(t, 1) for t in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else aten.unsqueeze(key_padding_mask, 0)
    length, batch, width = query.shape
    if width != embed_dim_to_check:
        raise ShapeError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    if width % num_heads:
        raise ShapeError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if is_causal and attn_mask is None:
        raise ShapeError("Need attn_mask if specifying the is_causal hint.")
    weights = (
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else aten.chunk(in_proj_weight, 3, 0)
    )
    biases = (None, None, None) if in_proj_bias is None else aten.chunk(in_proj_bias, 3, 0)
    q, k, v = (aten.linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases, strict=True))
    if bias_k is not None and bias_v is not None:
        k = aten.cat((k, aten.expand(bias_k, (1, batch, width))), 0)
        v = aten.cat((v, aten.expand(bias_v, (1, batch, width))), 0)
    head = width // num_heads
    q = _heads(q, batch, num_heads, head)
    k = _heads(k, batch, num_heads, head) if static_k is None else aten.reshape(static_k, (batch, num_heads, -1, head))
    v = _heads(v, batch, num_heads, head) if static_v is None else aten.reshape(static_v, (batch, num_heads, -1, head))
    if add_zero_attn:
        nothing = aten.new_zeros(k, (batch, num_heads, 1, head))
        k, v = aten.cat((k, nothing), 2), aten.cat((v, nothing), 2)
    extra = k.shape[2] - key.shape[0]
    mask = _joined_mask(attn_mask, key_padding_mask, q.dtype, batch, num_heads, extra)
    dropped = dropout_p if training else 0.0
    if need_weights:
        scores = aten.matmul(q * math.sqrt(1.0 / head), aten.transpose(k, -2, -1))
        shares = aten.softmax(scores if mask is None else scores + mask, -1)
        shares = aten.dropout(shares, dropped, True) if dropped > 0.0 else shares
        mixed = aten.matmul(shares, v)
    else:
        shares = None
        mixed = aten.scaled_dot_product_attention(q, k, v, mask, dropped, False)
    lined = aten.reshape(aten.permute(mixed, (2, 0, 1, 3)), (length, batch, width))
    out = aten.linear(lined, out_proj_weight, out_proj_bias)
    if shares is not None and average_attn_weights:
        shares = aten.mean(shares, 1)
    if is_single:
        out, shares = aten.squeeze(out, 1), None if shares is None else aten.squeeze(shares, 0)
    return out, shares


def _heads(x: Tensor, batch: Any, heads: int, width: int) -> Tensor:
    """[s, n, e] -> [n, heads, s, e / heads]."""
    return aten.permute(aten.reshape(x, (x.shape[0], batch, heads, width)), (1, 2, 0, 3))


def _joined_mask(
    attn_mask: Tensor | None, padding: Tensor | None, dtype: Any, batch: Any, heads: int, extra: int
) -> Tensor | None:
    """Both masks as one to be added to scores [n, heads, l, s]; positions that were appended are visible."""
    mask = additive(attn_mask, dtype)
    if mask is not None and mask.ndim == 3:
        mask = aten.reshape(mask, (batch, heads, mask.shape[1], mask.shape[2]))
    hidden = additive(padding, dtype)
    if hidden is not None:
        hidden = aten.reshape(hidden, (batch, 1, 1, hidden.shape[1]))
        mask = hidden if mask is None else mask + hidden
    return mask if mask is None or not extra else aten.constant_pad_nd(mask, (0, extra), 0.0)
