"""Grids and joint shapes: meshgrid, broadcast_tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims
from weft.support.errors import ShapeError


def _meshgrid(tensors: Sequence[Any], indexing: str | None = None) -> tuple[Any, ...]:
    if indexing not in ("ij", "xy", None):
        raise ShapeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not tensors:
        raise ShapeError("meshgrid expects a non-empty TensorList")
    if any(x.ndim > 1 for x in tensors):
        raise ShapeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got a tensor with more dims")
    swap = indexing == "xy" and len(tensors) > 1
    order = [tensors[1], tensors[0], *tensors[2:]] if swap else list(tensors)
    dims = [x.dims[0] if x.ndim else 1 for x in order]
    grids = []
    for i, x in enumerate(order):
        lined = aten.view(x, tuple(dims[i] if j == i else 1 for j in range(len(order))))
        grids.append(aten.expand(lined, dims))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


define(
    "aten::meshgrid(Tensor[] tensors) -> Tensor[]",
    "Coordinate grids: the i-th result varies along dim i with tensors[i].",
    decompose=_meshgrid,
    public=("weft",),
)
define(
    "aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
    "Coordinate grids, in matrix (`ij`) or Cartesian (`xy`) order.",
    decompose=_meshgrid,
    public=("weft",),
)
define(
    "aten::meshgrid.one(Tensor tensor, *, str? indexing=None) -> Tensor[]",
    "The grid of a single tensor.",
    decompose=lambda tensor, indexing: _meshgrid((tensor,), indexing),
    public=("weft",),
)


def _broadcast_tensors(tensors: Sequence[Any]) -> tuple[Any, ...]:
    dims = broadcast_dims("broadcast_tensors", [tuple(t.dims) for t in tensors])
    return tuple(aten.expand(t, dims) for t in tensors)


define(
    "aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]",
    "All tensors expanded to the dims they broadcast to.",
    decompose=_broadcast_tensors,
    public=("weft",),
)
define("aten::broadcast_tensors.one(Tensor tensor) -> Tensor[]", "A tensor that broadcasts with itself.",
       decompose=lambda tensor: (aten.expand(tensor, tensor.dims),), public=("weft",))
