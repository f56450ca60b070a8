"""Reductions: sums, products, extrema, and the statistics made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ops.op import Reduce, define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dims, reduced_dims
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type


def _sum_type(self: TensorType, dim: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> TensorType:
    if dtype is None and self.dtype is not None:
        dtype = self.dtype if self.dtype.is_differentiable else dt.int64
    if not self.is_complete:
        return tensor_type(dtype, None)
    axes = normalize_dims("sum", dim, self.ndim)
    return tensor_type(dtype, reduced_dims(self.shape, axes, keepdim), self.device)


sum_ = define(
    "aten::sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "Sum over `dim` (all dims when None). Integers and bool sum as int64.",
    type=_sum_type,
    reduce=Reduce("sum"),
    vjp={"self": lambda g, self_dims, dim, keepdim: aten.expand(_with_reduced(g, self_dims, dim, keepdim), self_dims)},
    reference=lambda x, dim, keepdim, dtype: np.sum(x, axis=dim, keepdims=keepdim),
)


def _with_reduced(g: Any, dims: tuple[Any, ...], dim: Sequence[int] | int | None, keepdim: bool) -> Any:
    """The cotangent of a reduction with its reduced dims put back as size 1."""
    if keepdim or not dims:
        return g
    axes = normalize_dims("sum", dim, len(dims))
    for axis in sorted(axes):
        g = aten.unsqueeze(g, axis)
    return g
