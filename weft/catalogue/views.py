"""Views: strides in, strides out. Gradients, `_copy` and `_scatter` twins follow from the geometry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.catalogue.families import view
from weft.ops.geometry import Geometry
from weft.ops.rules import dims_text, normalize_dim
from weft.support.errors import IndexBoundsError, ShapeError
from weft.types import shape_env
from weft.types.dims import Dim


def _expand(g: Geometry, size: Sequence[Dim], implicit: bool = False) -> Geometry:
    if len(size) < g.ndim:
        raise ShapeError(
            f"expand: the number of sizes provided ({len(size)}) must be greater or equal to the number of dimensions in the tensor ({g.ndim})"
        )
    lead = len(size) - g.ndim
    dims, strides = list(size), [0] * len(size)
    for i in range(len(size)):
        old = g.dims[i - lead] if i >= lead else None
        if isinstance(dims[i], int) and dims[i] == -1:
            if old is None:
                raise ShapeError(f"expand: The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}")
            dims[i] = old
        if old is None:
            continue
        if dims[i] == old or shape_env.equal(dims[i], old):
            strides[i] = g.strides[i - lead]  # type: ignore[call-overload]
        elif not shape_env.equal(old, 1):
            raise ShapeError(
                f"expand: The expanded size of the tensor ({dims[i]}) must match the existing size ({old}) at non-singleton dimension {i}.  "
                f"Target sizes: {dims_text(size)}.  Tensor sizes: {dims_text(g.dims)}"
            )
    return Geometry(tuple(dims), tuple(strides), g.offset)


expand = view(
    "aten::expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)",
    "The tensor with dims of size 1 repeated to `size` (stride 0); -1 keeps a size; new leading dims may be added.",
    _expand,
    numpy=lambda x, size, implicit: None,
)


def _unsqueeze(g: Geometry, dim: int) -> Geometry:
    at = normalize_dim("unsqueeze", dim, g.ndim + 1)
    stride = g.dims[at] * g.strides[at] if at < g.ndim else 1
    return Geometry((*g.dims[:at], 1, *g.dims[at:]), (*g.strides[:at], stride, *g.strides[at:]), g.offset)


unsqueeze = view(
    "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
    "The tensor with a dim of size 1 inserted at `dim`.",
    _unsqueeze,
)


def _select(g: Geometry, dim: int, index: Dim) -> Geometry:
    if g.ndim == 0:
        raise IndexBoundsError("select() cannot be applied to a 0-dim tensor.")
    at = normalize_dim("select", dim, g.ndim)
    size = g.dims[at]
    if shape_env.less(index, 0):
        index = index + size
    if shape_env.less(index, 0) or not shape_env.less(index, size):
        raise IndexBoundsError(f"select(): index {index} out of range for tensor of size {dims_text(g.dims)} at dimension {at}")
    return Geometry(g.dims[:at] + g.dims[at + 1 :], g.strides[:at] + g.strides[at + 1 :], g.offset + index * g.strides[at])


select = view(
    "aten::select.int(Tensor(a) self, int dim, int index) -> Tensor(a)",
    "The slice at one index of a dim; the dim goes away.",
    _select,
)


def _permute(g: Geometry, dims: Sequence[int]) -> Geometry:
    if len(dims) != g.ndim:
        raise ShapeError(f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
                         f"dimensions i.e. input.dim() = {g.ndim} is not equal to len(dims) = {len(dims)}")
    order = [normalize_dim("permute", d, g.ndim) for d in dims]
    if len(set(order)) != len(order):
        raise ShapeError("permute(): duplicate dims are not allowed.")
    return Geometry(tuple(g.dims[d] for d in order), tuple(g.strides[d] for d in order), g.offset)


permute = view(
    "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
    "The tensor with its dims in another order.",
    _permute,
    numpy=lambda x, dims: np.transpose(x, dims) if len(dims) == x.ndim and len(set(d % max(x.ndim, 1) for d in dims)) == x.ndim else None,
)
