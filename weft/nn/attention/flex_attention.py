"""flex_attention: attention whose scores a function changes, and whose pairs a BlockMask chooses. Composed of
operators: weft.compile makes kernels of it as of any other code."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from weft.nn.attention.block_mask import (
    DEFAULT_BLOCK_SIZE,
    BlockMask,
    MaskMod,
    ScoreMod,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
    over_places,
    places,
    sliced_mask_mod,
)
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, DTypeError, ShapeError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]
_DEFAULT_SPARSE_BLOCK_SIZE = DEFAULT_BLOCK_SIZE  # PyTorch's names
_score_mod_signature, _mask_mod_signature = ScoreMod, MaskMod


class AuxRequest(NamedTuple):
    """What flex_attention is to give beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """[B, Hq, L] each, where asked for. lse: logarithms of the sums of exp(score); max_scores: the largest scores."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod | None = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None, *, return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(scale * query key^T), where block_mask says so) value. query: [B, Hq, L, E],
    key: [B, Hkv, S, E], value: [B, Hkv, S, Ev] -> [B, Hq, L, Ev]. A query that sees no key gives 0.

    score_mod: (score, b, h, q_idx, kv_idx) -> score, of one pair. block_mask: from create_block_mask; its blocks are
    left out, and its mask_mod is asked in those that are not full. scale: 1/sqrt(E) when None.
    enable_gqa: Hq is a multiple of Hkv. return_lse: (result, lse); return_aux: (result, AuxOutput).
    kernel_options: PyTorch's, which choose nothing here.
    Raises ShapeError, DTypeError, ValueProblem, ArgumentError.
    """
    key, value, (batch, heads) = _checked(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ArgumentError("flex_attention: give return_lse or return_aux=AuxRequest(lse=True), not both")
    working = dt.float64 if query.dtype is dt.float64 else dt.float32
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ key.mT).to(working) * factor
    where = places(batch, heads, query.shape[2], key.shape[2], query.device)
    if score_mod is not None:
        scores = over_places(score_mod, True)(scores, *where).to(working)
    if block_mask is not None:
        scores = aten.where(_seen(block_mask, where), scores, -math.inf)
    out = _softmax(scores).to(query.dtype) @ value
    if return_aux is not None:
        return out, AuxOutput(
            aten.logsumexp(scores, -1) if return_aux.lse else None,
            aten.amax(scores, -1) if return_aux.max_scores else None,
        )
    return (out, aten.logsumexp(scores, -1)) if return_lse else out


def _softmax(scores: Tensor) -> Tensor:
    """Over the keys; 0 where there are none."""
    sees_none = aten.all(aten.isneginf(scores), -1, True)
    return aten.where(sees_none, 0, aten.softmax(aten.where(sees_none, 0, scores), -1))


def _checked(
    query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool
) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Keys and values for each head of the queries; batches and heads."""
    if any(t.ndim != 4 for t in (query, key, value)):
        raise ShapeError("flex_attention: query, key, and value must be 4D tensors")
    if not query.dtype is key.dtype is value.dtype:
        raise DTypeError(
            f"flex_attention: expected one dtype, got query {query.dtype}, key {key.dtype}, value {value.dtype}"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"flex_attention: query has E={query.shape[-1]}, key {key.shape[-1]}")
    heads, of_keys = query.shape[1], key.shape[1]
    if not enable_gqa and heads != of_keys:
        raise ValueProblem(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={of_keys}. "
            "Try setting enable_gqa=True for GQA."
        )
    if heads % of_keys != 0:
        raise ValueProblem(
            "Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={heads} and Hkv={of_keys}."
        )
    if block_mask is not None and tuple(block_mask.shape[-2:]) != (query.shape[2], key.shape[2]):
        raise ValueProblem(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={query.shape[2]} and "
            f"kv_len={key.shape[2]}; create one of these lengths"
        )
    if heads != of_keys:
        key, value = (aten.repeat_interleave(t, heads // of_keys, 1) for t in (key, value))
    return key, value, (query.shape[0], heads)


def _seen(block_mask: BlockMask, where: list[Tensor]) -> Tensor:
    """bool [B, H, L, S] (or of sizes that broadcast to it): which keys a query sees."""
    if block_mask.mask_mod is sliced_mask_mod:
        sliced_mask_mod(*where)
    rows, columns = (
        aten.div(at, size, rounding_mode="floor") for at, size in zip(where[2:], block_mask.BLOCK_SIZE, strict=True)
    )
    def of_pairs(blocks: Tensor) -> Tensor:
        return blocks[..., aten.unsqueeze(rows, 1), columns]

    seen = of_pairs(block_mask.partial_blocks())
    if block_mask.mask_mod is not noop_mask:
        seen = seen & over_places(block_mask.mask_mod, False)(*where)
    full = block_mask.full_blocks()
    return seen if full is None else seen | of_pairs(full)
