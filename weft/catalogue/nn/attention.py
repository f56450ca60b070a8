"""Attention: scaled dot products, masks, softmax."""

from __future__ import annotations

import math
from typing import Any

from weft.catalogue.samples import F, case, draw
from weft.catalogue.widening import cast, widened
from weft.ops.op import define
from weft.ops.packet import aten
from weft.support.errors import DTypeError, ShapeError
from weft.types import dtype as dt
from weft.types import shape_env

_MINUS_INFINITY = float("-inf")


def _causal_mask(rows: Any, columns: Any) -> Any:
    """Where a key lies after the query, and may not be seen."""
    return aten.arange(columns) > aten.unsqueeze(aten.arange(rows), 1)


def _safe_softmax(scores: Any) -> Any:
    """Softmax over the last dim; a row in which everything is masked gives zeros."""
    hidden = aten._greatest(scores, -1, True) == _MINUS_INFINITY
    return aten.masked_fill(aten._softmax(aten.masked_fill(scores, hidden, 0), -1, None), hidden, 0)


def _masked(scores: Any, attn_mask: Any) -> Any:
    if attn_mask.dtype is dt.bool_:
        return aten.masked_fill(scores, aten.logical_not(attn_mask), _MINUS_INFINITY)
    if not attn_mask.dtype.is_floating_point:
        raise DTypeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype}"
        )
    return scores + attn_mask


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: float | None,
    enable_gqa: bool,
) -> Any:
    _check(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        groups = query.dims[-3] // key.dims[-3]
        key, value = (aten.repeat_interleave(x, groups, -3) for x in (key, value))
    factor = _factor(query.dims[-1]) if scale is None else scale
    q, k, v = widened(query), widened(key), widened(value)
    scores = aten.matmul(q * factor, aten.transpose(k, -2, -1))
    if is_causal:
        scores = aten.masked_fill(scores, _causal_mask(query.dims[-2], key.dims[-2]), _MINUS_INFINITY)
    weights = aten._softmax(scores, -1, None) if attn_mask is None else _safe_softmax(_masked(scores, attn_mask))
    if not (isinstance(dropout_p, (int, float)) and dropout_p == 0):
        weights = aten.dropout(weights, dropout_p, True)
    return cast(aten.matmul(weights, v), query.dtype)


def _factor(size: Any) -> float:
    return 1 / math.sqrt(shape_env.fixed(size) or 1)  # without columns there is nothing to scale


def _check(query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool) -> None:
    if not query.dtype is key.dtype is value.dtype:
        raise DTypeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype} key.dtype: "
            f"{key.dtype} and value.dtype: {value.dtype} instead."
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            f"Expected query, key, and value to all be at least 2 dimensional, but got query.dim(): {query.ndim}, "
            f"key.dim(): {key.ndim} and value.dim(): {value.ndim} instead."
        )
    if attn_mask is not None and is_causal:
        raise ShapeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")


define(
    "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0.0, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor",
    "softmax(query @ key.T * scale + mask) @ value: query [..., l, e], key [..., s, e], value [..., s, v] -> [..., l, "
    "v]. A bool mask is True where a key may be seen.",
    decompose=_attention,
    public=("nn.functional",),
    samples=draw(
        case(F(2, 3, 4), F(2, 5, 4), F(2, 5, 2)), case(F(3, 4), F(3, 4), F(3, 2), is_causal=True),
        case(F(3, 4), F(5, 4), F(5, 2), F(3, 5)),
    ),
)
