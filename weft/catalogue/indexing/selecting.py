"""One place along a dim, where a tensor says which: what `x[i]` is with a 0-dim tensor i whose value is known only
when the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.samples import F, I, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.types.tensor_type import TensorType, tensor_type


def _without(type: TensorType, dim: int) -> TensorType:
    return (
        type.with_dims((*type.shape[:dim], *type.shape[dim + 1 :])) if type.is_complete
        else tensor_type(type.dtype, None, type.device)
    )


def _indices(dim: int, index: Any) -> tuple[Any, ...]:
    return (None,) * dim + (index,)


select_at = define(
    "aten::select_at(Tensor self, int dim, Tensor index) -> Tensor",
    "The slice along dim (not negative) at the place that a 0-dim tensor holds. Captured, it is a view: "
    "writes to it reach self.",
    type=lambda self, dim, index: _without(self, dim),
    decompose=lambda self, dim, index: aten.index(self, _indices(dim, index)),
    vjp={"self": lambda g, self_dims, dim, index: aten.select_at_scatter(aten.new_zeros(g, self_dims), g, dim, index)},
    effect="raises",
    public=(),
    samples=draw(case(F(3, 4), 0, I(high=3)), case(F(3, 4), 1, I(high=4))),
    reference=lambda x, dim, index: np.take(x, index, dim),
    view_if_captured=True,
)


def _replaced(x: Any, src: Any, dim: int, index: Any) -> Any:
    out = np.array(x)
    out[(slice(None),) * dim + (index,)] = src
    return out


define(
    "aten::select_at_scatter(Tensor self, Tensor src, int dim, Tensor index) -> Tensor",
    "self with src in the place of the slice that select_at shows.",
    type=lambda self, src, dim, index: self,
    decompose=lambda self, src, dim, index: aten.index_put(self, _indices(dim, index), src),
    vjp={
        "self": lambda g, src_dims, dim, index: aten.select_at_scatter(g, aten.new_zeros(g, src_dims), dim, index),
        "src": lambda g, dim, index: aten.select_at(g, dim, index),
    },
    effect="raises",
    public=(),
    samples=draw(case(F(3, 4), F(4), 0, I(high=3)), case(F(3, 4), F(3), 1, I(high=4))),
    reference=_replaced,
)
