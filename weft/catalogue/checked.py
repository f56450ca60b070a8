"""Indices that are known to be in bounds: what passes put before work that could not fail by itself."""

from __future__ import annotations

from typing import Any

from weft.catalogue.index_checks import check_bounds, check_index_dtype
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.types.tensor_type import TensorType


def _checked_type(index: TensorType, size: Any) -> TensorType:
    check_index_dtype("checked_index", index)
    return index


def _checked(index: Any, size: int) -> Any:
    check_bounds(index, size, 0)
    return index.copy()


checked_index = define(
    "aten::checked_index(Tensor index, int size) -> Tensor",
    "The index itself, once all of it is known to lie in [0, size). Raises OutOfBounds.",
    type=_checked_type,
    kernel=_checked,
    vjp=NOT_DIFFERENTIABLE,
    effect="raises",
    public=(),
)
