"""Sums of products over pairs of dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.support.errors import ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type


def _trace_type(self: TensorType) -> TensorType:
    if self.is_complete and self.ndim != 2:
        raise ShapeError("trace: expected a matrix")
    is_whole = self.dtype is not None and not self.dtype.is_differentiable
    return tensor_type(dt.int64 if is_whole else self.dtype, (), self.device)


def _trace(self: Any) -> Any:
    if self.ndim != 2:
        raise ShapeError("trace: expected a matrix")
    return aten.sum(aten.diagonal(self))


define("aten::trace(Tensor self) -> Tensor", "The sum of a matrix's diagonal.",
precision="float32",
    type=_trace_type,
    decompose=_trace,
    vjp={"self": lambda g, self_dims: g * aten.eye(*self_dims, dtype=g.dtype)},
    samples=draw(case(F(3, 4))),
    reference=np.trace,
)


def _tensordot(self: Any, other: Any, dims_self: Sequence[int], dims_other: Sequence[int]) -> Any:
    if len(dims_self) != len(dims_other):
        raise ShapeError(
            f"both dimension lists should have same length, got {len(dims_self)} and {len(dims_other)}"
        )
    a = [normalize_dim("tensordot", d, self.ndim) for d in dims_self]
    b = [normalize_dim("tensordot", d, other.ndim) for d in dims_other]
    for i, j in zip(a, b, strict=True):
        if shape_env.equal(self.dims[i], other.dims[j]):
            continue
        if shape_env.equal(self.dims[i], 1):
            other = aten.sum(other, j, True, dtype=other.dtype)
        elif shape_env.equal(other.dims[j], 1):
            self = aten.sum(self, i, True, dtype=self.dtype)
        else:
            raise ShapeError(
                f"contracted dimensions need to match, but first has size {self.dims[i]} in dim {i} and second has "
                f"size {other.dims[j]} in dim {j}"
            )
    rest_a = [i for i in range(self.ndim) if i not in a]
    rest_b = [j for j in range(other.ndim) if j not in b]
    dims: list[Dim] = [self.dims[i] for i in rest_a] + [other.dims[j] for j in rest_b]
    k = dm.product(self.dims[i] for i in a)
    left = aten.reshape(aten.permute(self, rest_a + a), (dm.product(self.dims[i] for i in rest_a), k))
    right = aten.reshape(aten.permute(other, b + rest_b), (k, dm.product(other.dims[j] for j in rest_b)))
    return aten.reshape(aten.mm(left, right), dims)


def _tensordot_any(a: Any, b: Any, dims: Any) -> Any:
    """`dims` as users give it: a count of last and first dims, or a pair of lists, or a tensor of either."""
    if hasattr(dims, "tolist"):
        dims = int(dims) if dims.numel() == 1 else dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise ShapeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return _tensordot(a, b, list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    first, second = ((d,) if isinstance(d, int) else tuple(d) for d in dims)
    return _tensordot(a, b, first, second)


define("aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
       "Sums of products over pairs of dims.", decompose=_tensordot, public=(),
    samples=draw(case(F(2, 3, 4), F(4, 2), (0, 2), (1, 0))),
    reference=lambda a, b, i, j: np.tensordot(a, b, (i, j)),
)


define("aten::tensordot.dims(Tensor a, Tensor b, Object dims=2) -> Tensor",
       "Sums of products over the last `dims` of a and first of b, or over the dims that a pair of lists names.",
       decompose=_tensordot_any, public=("weft",), out=True)
