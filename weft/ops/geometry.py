"""Geometry: dims, strides and offset of a strided view, in elements; and the algebra of view operators on it."""

from __future__ import annotations

from dataclasses import dataclass

from weft.types import shape_env
from weft.types.dims import Dim

Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class Geometry:
    """How a tensor lies over a storage: sizes, element strides, element offset. Any of them may be symbolic."""

    dims: Dims
    strides: Dims
    offset: Dim = 0

    @property
    def ndim(self) -> int:
        return len(self.dims)


def contiguous_strides(dims: Dims) -> Dims:
    """Row-major strides; sizes of 0 count as 1, as PyTorch does."""
    strides: list[Dim] = [1] * len(dims)
    for i in range(len(dims) - 2, -1, -1):
        size = dims[i + 1]
        strides[i] = strides[i + 1] * (1 if isinstance(size, int) and size == 0 else size)
    return tuple(strides)


def contiguous(dims: Dims) -> Geometry:
    """The row-major geometry of these dims."""
    return Geometry(dims, contiguous_strides(dims), 0)


def is_contiguous(g: Geometry) -> bool:
    """Whether elements lie row-major without gaps (dims of size 1 may have any stride)."""
    expected: Dim = 1
    for size, stride in zip(reversed(g.dims), reversed(g.strides)):
        if isinstance(size, int) and size == 1:
            continue
        if not (stride == expected or shape_env.equal(size, 1) or shape_env.equal(stride, expected)):
            return any(isinstance(d, int) and d == 0 for d in g.dims)
        expected = expected * size
    return True


def merge_strides(g: Geometry, dims: Dims) -> Dims | None:
    """Strides that show `g` with other dims of the same number of elements, or None when only a copy can."""
    if any(isinstance(d, int) and d == 0 for d in g.dims):
        return g.strides if g.dims == dims else contiguous_strides(dims)
    if g.dims == dims:
        return g.strides
    if g.strides == contiguous_strides(g.dims):
        return contiguous_strides(dims)
    return _split_groups(_merged_groups(g), dims)


def _merged_groups(g: Geometry) -> list[tuple[Dim, Dim]]:
    """Runs of dims that lie contiguous to each other, as (size, stride of the innermost), outermost first."""
    groups: list[tuple[Dim, Dim]] = []
    for size, stride in zip(g.dims, g.strides):
        if isinstance(size, int) and size == 1:
            continue
        if groups:
            outer_size, outer_stride = groups[-1]
            joined = size * stride
            if outer_stride == joined or shape_env.equal(outer_stride, joined):
                groups[-1] = (outer_size * size, stride)
                continue
        groups.append((size, stride))
    return groups or [(1, 1)]


def _split_groups(groups: list[tuple[Dim, Dim]], dims: Dims) -> Dims | None:
    """Cut the runs into `dims`, innermost first."""
    strides: list[Dim] = [1] * len(dims)
    at = len(dims) - 1
    for size, stride in reversed(groups):
        taken: Dim = 1
        while at >= 0 and not (taken == size or shape_env.equal(taken, size)):
            strides[at] = stride * taken
            taken = taken * dims[at]
            at -= 1
        if not (taken == size or shape_env.equal(taken, size)):
            return None
        # dims of size 1 between runs take the running stride, as PyTorch does
        while at >= 0 and isinstance(dims[at], int) and dims[at] == 1:
            strides[at] = stride * taken
            at -= 1
    return tuple(strides) if at < 0 else None
