"""Bags of rows: embedding_bag."""

from __future__ import annotations

from typing import Any

from weft.catalogue.indexing.embedding import rows_of
from weft.catalogue.nn.row_norms import limit_rows
from weft.catalogue.widening import cast, widened
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text, same_dims
from weft.support.errors import DTypeError, ShapeError, Unsupported, ValueProblem
from weft.support.warn import warn
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim

_MODES = ("sum", "mean", "max")
_INDICES = (dt.int64, dt.int32)


def _check(
    input: Any, weight: Any, offsets: Any, mode: str, scale_grad_by_freq: bool, sparse: bool, per_sample_weights: Any
) -> None:
    if weight.ndim != 2:
        raise ShapeError("'weight' must be 2-D")
    if input.dtype not in _INDICES:
        raise DTypeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
            f"but got {input.dtype} instead"
        )
    if per_sample_weights is not None and not same_dims(input.dims, per_sample_weights.dims):
        raise ValueProblem(
            f"embedding_bag: If per_sample_weights ({dims_text(per_sample_weights.dims)}) is not None, "
            f"then it must have the same shape as the input ({dims_text(input.dims)})"
        )
    if input.ndim == 2 and offsets is not None:
        raise ValueProblem(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences"
        )
    if input.ndim == 1 and offsets is None:
        raise ValueProblem("offsets has to be a 1D Tensor but got None")
    if input.ndim == 1 and offsets.ndim != 1:
        raise ValueProblem("offsets has to be a 1D Tensor")
    if input.ndim not in (1, 2):
        raise ValueProblem(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is not None and offsets.dtype not in (dt.int64, dt.int32):
        raise DTypeError(
            "Expected tensor for argument #3 'offsets' to have one of the following scalar types: Long, Int; "
            f"but got {offsets.dtype} instead"
        )
    if mode not in _MODES:
        raise ValueProblem("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueProblem("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueProblem("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise Unsupported(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        raise DTypeError(
            f"expected weight and per_sample_weights to have the same dtype, but got {weight.dtype} and "
            f"{per_sample_weights.dtype}"
        )


def _bags(input: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, Any, Dim]:
    """The indices in one row, the bag of each, and how many bags there are."""
    if input.ndim == 2:
        count, width = input.dims
        flat = aten.reshape(input, (count * width,))
        return flat, aten.floor_divide(aten.arange(count * width), dm.maximum(width, 1)), count
    count = offsets.dims[0] - (1 if include_last_offset else 0)
    starts = aten.narrow(offsets, 0, 0, count) if include_last_offset else offsets
    places = aten.arange(input.dims[0], dtype=offsets.dtype)
    return input, aten.searchsorted(starts, places, right=True) - 1, count


def _embedding_bag(
    input: Any, weight: Any, offsets: Any, max_norm: Any, norm_type: Any, scale_grad_by_freq: bool, mode: str,
    sparse: bool, per_sample_weights: Any, include_last_offset: bool, padding_idx: int | None,
) -> Any:
    if input.dtype.is_floating_point and weight.dtype in _INDICES:
        warn("Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
             "deprecated, and should now be `embedding_bag(input, weight, ...)`.")
        input, weight = weight, input
    _check(input, weight, offsets, mode, scale_grad_by_freq, sparse, per_sample_weights)
    if padding_idx is not None:
        if shape_env.less(padding_idx, -weight.dims[0]) or not shape_env.less(padding_idx, weight.dims[0]):
            raise ShapeError(
                f"padding_idx must be within the number of embeddings, but got {padding_idx} for {weight.dims[0]} rows"
            )
        padding_idx = weight.dims[0] + padding_idx if padding_idx < 0 else padding_idx
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    flat, bag, count = _bags(input, offsets, include_last_offset)
    rows = widened(rows_of(weight, flat, padding_idx, scale_grad_by_freq, sparse))
    empty = aten.zeros((count, weight.dims[1]), dtype=rows.dtype)
    left_out = None if padding_idx is None else aten.unsqueeze(aten.eq(flat, padding_idx), 1)
    if mode == "max":
        rows = rows if left_out is None else aten.masked_fill(rows, left_out, float("-inf"))
        out = aten.scatter_reduce(
            empty, 0, aten.expand(aten.unsqueeze(bag, 1), rows.dims), rows, "amax", include_self=False
        )
        return cast(out if left_out is None else aten.where(aten.eq(out, float("-inf")), 0, out), weight.dtype)
    if per_sample_weights is not None:
        rows = rows * aten.reshape(per_sample_weights, (-1, 1))
    rows = rows if left_out is None else aten.masked_fill(rows, left_out, 0)
    out = aten.index_add(empty, 0, bag, rows)
    if mode == "mean":
        counted = aten.ones((flat.dims[0], 1), dtype=rows.dtype)
        counted = counted if left_out is None else aten.masked_fill(counted, left_out, 0)
        sizes = aten.index_add(aten.zeros((count, 1), dtype=rows.dtype), 0, bag, counted)
        out = out / aten.clamp_min(sizes, 1)
    return cast(out, weight.dtype)


define(
    'nn::embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float norm_type=2, '
    'bool scale_grad_by_freq=False, str mode="mean", bool sparse=False, Tensor? per_sample_weights=None, '
    'bool include_last_offset=False, '
    "int? padding_idx=None) -> Tensor",
    "The sum, mean or max of the rows of weight [n, d] in each bag: input [b, k] has a bag in each row, "
    "input [m] from one of the offsets [b] to the next. The row padding_idx does not count.",
    decompose=_embedding_bag,
    public=("nn.functional",),
)
