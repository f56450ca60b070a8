"""Grids and joint shapes: meshgrid, broadcast_tensors; and all tuples of elements: cartesian_prod, combinations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims, dims_text
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
    return tuple(t if tuple(t.dims) == dims else aten.expand(t, dims) for t in tensors)


define(
    "aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]",
    "All tensors expanded to the dims they broadcast to; those that have these dims as they are.",
    decompose=_broadcast_tensors,
    public=("weft",),
)
define("aten::broadcast_tensors.one(Tensor tensor) -> Tensor[]", "A tensor that broadcasts with itself.",
       decompose=lambda tensor: (aten.expand(tensor, tensor.dims),), public=("weft",))


def _cartesian_prod(tensors: Sequence[Any]) -> Any:
    if not tensors:
        raise ShapeError("cartesian_prod expects at least one tensor")
    if any(x.ndim != 1 for x in tensors):
        raise ShapeError(
            "Expect a 1D vector, but got shape " + ", ".join(dims_text(x.dims) for x in tensors if x.ndim != 1)
        )
    if len(tensors) == 1:
        return aten.clone(tensors[0])
    return aten.stack([aten.reshape(grid, (-1,)) for grid in _meshgrid(tensors)], 1)


define(
    "aten::cartesian_prod(Tensor[] tensors) -> Tensor",
    "All tuples of elements of the vectors, one a row, in lexicographic order: [product of sizes, count].",
    decompose=_cartesian_prod, public=("weft",), samples=draw(case((F(2), F(3), F(2)))),
    reference=lambda tensors: np.stack([g.reshape(-1) for g in np.meshgrid(*tensors, indexing="ij")], 1),
)
define(
    "aten::cartesian_prod.one(Tensor tensor) -> Tensor", "A copy of the vector.",
    decompose=lambda tensor: _cartesian_prod((tensor,)), public=("weft",),
)


def _combinations(self: Any, r: int, with_replacement: bool) -> Any:
    if self.ndim != 1:
        raise ShapeError(f"Expect a 1D vector, but got shape {dims_text(self.dims)}")
    if r < 0:
        raise ShapeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return aten.new_zeros(self, (0,))
    places = _meshgrid((aten._iota(self.dims[0]),) * r)
    kept = None
    for earlier, later in itertools.pairwise(places):
        rises = aten.le(earlier, later) if with_replacement else aten.lt(earlier, later)
        kept = rises if kept is None else aten.logical_and(kept, rises)
    columns = places if kept is None else [aten.masked_select(p, kept) for p in places]
    return aten.stack([aten.index_select(self, 0, c) for c in columns], 1)


define(
    "aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    "All r elements of a vector, in order, one choice a row.", decompose=_combinations, public=("weft",),
    samples=draw(case(F(4), 2), case(F(3), 2, True), case(F(4), 3)),
    reference=lambda x, r, repeats: np.array(
        list((itertools.combinations_with_replacement if repeats else itertools.combinations)(x, r))
    ),
)
