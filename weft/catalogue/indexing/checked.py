"""Indices and values that are known to be in bounds: what goes before work that could not fail by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.indexing.checks import check_bounds, check_index_dtype
from weft.catalogue.samples import F, case, draw
from weft.ops.batching import unary
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.support.errors import StateError, ValueProblem
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
    batch=unary,
    effect="raises",
    public=(),
)


def _checked_values(x: Any, low: Any, high: Any, text: str) -> Any:
    size = np.abs(x) if np.iscomplexobj(x) else x
    if (low is not None and not (size >= low).all()) or (high is not None and not (size <= high).all()):
        raise StateError(text)
    return x.copy()


checked_values = define(
    "aten::_checked_values(Tensor self, Scalar? low, Scalar? high, str text) -> Tensor",
    "The tensor itself, once all of it is known to lie in [low, high] (None: no bound), which no NaN does; "
    "of complex numbers the magnitudes. Raises StateError with the text.",
    type=lambda self, low, high, text: self,
    kernel=_checked_values,
    vjp={"self": lambda g: g},
    batch=unary,
    effect="raises",
    public=(),
    samples=draw(case(F(3, 4), -100, 100, "out of range")),
    reference=lambda x, low, high, text: x,
)


def _all_true(condition: Any, text: str) -> Any:
    if not condition.all():
        raise ValueProblem(text)
    return condition.copy()


define(
    "aten::_all_true(Tensor self, str text) -> Tensor",
    "The tensor itself, once all of it is known to be true. Raises ValueProblem with the text.",
    type=lambda self, text: self,
    kernel=_all_true,
    vjp=NOT_DIFFERENTIABLE,
    batch=unary,
    effect="raises",
    public=(),
    samples=draw(case(np.ones((3, 4), bool), "not all true")),
    reference=lambda x, text: x,
)
