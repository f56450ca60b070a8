"""Attention: scaled dot products, masks, softmax."""

from __future__ import annotations

import math
from typing import Any

from weft.catalogue.nn.softmax import softmax_back
from weft.catalogue.samples import F, case, draw
from weft.catalogue.widening import cast, widened
from weft.ops.op import define, joint
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims
from weft.support.errors import DTypeError, NotForDType, ShapeError
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.tensor_type import TensorType, tensor_type

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
    if isinstance(dropout_p, (int, float)) and dropout_p == 0:
        return cast(_without_dropout(q, k, v, attn_mask, is_causal, factor), query.dtype)
    weights = aten.dropout(_weights(q, k, attn_mask, is_causal, factor), dropout_p, True)
    return cast(aten.matmul(weights, v), query.dtype)


def _without_dropout(q: Any, k: Any, v: Any, mask: Any, is_causal: bool, factor: float) -> Any:
    """By the entry that has a kernel of its own, where it is one: then no scores are kept."""
    is_tiled = q.dtype in (dt.float32, dt.float64) and (mask is None or mask.dtype in (dt.bool_, q.dtype))
    if not is_tiled:
        return _weighted(q, k, v, mask, is_causal, factor)
    lead = broadcast_dims("scaled_dot_product_attention", [x.dims[:-2] for x in (q, k, v)])
    q, k, v = (aten.expand(x, (*lead, *x.dims[-2:])) for x in (q, k, v))
    return aten._attention(q, k, v, mask, is_causal, factor)


def _weights(q: Any, k: Any, mask: Any, is_causal: bool, factor: float) -> Any:
    scores = aten.matmul(q * factor, aten.transpose(k, -2, -1))
    if is_causal:
        scores = aten.masked_fill(scores, _causal_mask(q.dims[-2], k.dims[-2]), _MINUS_INFINITY)
    return aten._softmax(scores, -1, None) if mask is None else _safe_softmax(_masked(scores, mask))


def _weighted(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    return aten.matmul(_weights(query, key, mask, is_causal, scale), value)


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


# ---- attention in one kernel: gradients compute the scores anew


def _back(
    g: Any, needs: tuple[bool, ...], query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float
) -> Any:
    if not needs[3]:
        return (*aten._attention_backward(g, query, key, value, mask, is_causal, scale), None)
    weights = _weights(query, key, mask, is_causal, scale)
    of_scores = _scores_back(weights, aten.matmul(g, aten.transpose(value, -2, -1)), mask, is_causal)
    return (*_operands_back(of_scores, weights, g, query, key, scale), aten.sum_to_size(of_scores, mask.dims))


def _scores_back(weights: Any, of_weights: Any, mask: Any, is_causal: bool) -> Any:
    """The gradient of scores, by that of their softmax; hidden scores have none."""
    out = softmax_back(of_weights, weights, -1)
    if is_causal:
        out = aten.masked_fill(out, _causal_mask(weights.dims[-2], weights.dims[-1]), 0)
    if mask is not None and mask.dtype is dt.bool_:
        out = aten.masked_fill(out, aten.logical_not(mask), 0)
    return out


def _operands_back(of_scores: Any, weights: Any, g: Any, query: Any, key: Any, scale: float) -> tuple[Any, Any, Any]:
    scaled = of_scores * scale
    return (
        aten.matmul(scaled, key), aten.matmul(aten.transpose(scaled, -2, -1), query),
        aten.matmul(aten.transpose(weights, -2, -1), g),
    )


def _attention_backward(
    grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    weights = _weights(query, key, mask, is_causal, scale)
    of_scores = _scores_back(weights, aten.matmul(grad, aten.transpose(value, -2, -1)), mask, is_causal)
    return _operands_back(of_scores, weights, grad, query, key, scale)


def _type(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> TensorType:
    if query.dtype is not None and not query.dtype.is_floating_point:
        raise NotForDType(f"scaled_dot_product_attention: not implemented for {query.dtype}")
    if query.dims is None or key.dims is None or value.dims is None:
        return tensor_type(query.dtype, None, query.device)
    pairs = {"widths of query and key": (query.dims[-1], key.dims[-1]), "keys": (key.dims[-2], value.dims[-2])}
    for name, (a, b) in pairs.items():
        if not shape_env.equal(a, b):
            raise ShapeError(f"scaled_dot_product_attention: {name} must be equal: got {a} and {b}")
    if mask is not None and mask.dims is not None:
        scores = (*query.dims[:-1], key.dims[-2])
        if len(broadcast_dims("scaled_dot_product_attention", [scores, mask.dims])) != len(scores):
            raise ShapeError(f"scaled_dot_product_attention: a mask of {mask.ndim} dims for scores of {len(scores)}")
    return tensor_type(query.dtype, (*query.dims[:-1], value.dims[-1]), query.device)


def _backward_type(grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    _type(query, key, value, mask, is_causal, scale)
    return query, key, value


define(
    "aten::_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, float scale) -> Tensor",
    "softmax(query @ key.T * scale + mask) @ value: query [..., l, e], key [..., s, e], value [..., s, v] with equal "
    "batch dims; mask broadcasts to [..., l, s]: True where a key may be seen, or what is added -> [..., l, v].",
    type=_type,
    decompose=_weighted,
    vjp=joint(("query", "key", "value", "mask"), _back),
    is_whole=True,
    public=(),
    samples=draw(
        case(F(2, 3, 4), F(2, 5, 4), F(2, 5, 2), None, False, 0.5), case(F(3, 4), F(3, 4), F(3, 2), None, True, 1.0),
        case(F(2, 3, 4), F(2, 5, 4), F(2, 5, 2), F(3, 5), False, 0.7),
    ),
)
define(
    "aten::_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, "
    "float scale) -> (Tensor, Tensor, Tensor)",
    "The gradients of `_attention` by query, key and value.",
    type=_backward_type,
    decompose=_attention_backward,
    is_whole=True,
    public=(),
    samples=draw(
        case(F(2, 3, 2), F(2, 3, 4), F(2, 5, 4), F(2, 5, 2), None, False, 0.5),
        case(F(3, 2), F(3, 4), F(3, 4), F(3, 2), None, True, 1.0),
    ),
)
define(
    "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0.0, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor",
    "softmax(query @ key.T * scale + mask) @ value: query [..., l, e], key [..., s, e], value [..., s, v] -> [..., l, "
    "v]. A bool mask is True where a key may be seen.",
    precision="lower",
    decompose=_attention,
    public=("nn.functional",),
    samples=draw(
        case(F(2, 3, 4), F(2, 5, 4), F(2, 5, 2)), case(F(3, 4), F(3, 4), F(3, 2), is_causal=True),
        case(F(3, 4), F(5, 4), F(5, 2), F(3, 5)),
    ),
)
