"""Geometry: dims, strides and offset of a strided view, in elements; and the algebra of view operators on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.support.errors import ShapeError
from weft.types import shape_env
from weft.types.dims import Dim, is_one

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


def outside_storage(g: Geometry, total: Dim) -> ShapeError:
    """The error for a geometry that reaches beyond the elements that there are."""
    sizes, strides = (f"[{', '.join(map(str, each))}]" for each in (g.dims, g.strides))
    return ShapeError(
        f"as_strided: sizes {sizes}, strides {strides} and storage offset {g.offset} reach outside of a storage of "
        f"{total} elements"
    )


def within(g: Geometry, total: Dim) -> Geometry:
    """The geometry itself, once it is known to stay within a storage of so many elements. Raises ShapeError."""
    last = g.offset
    for size, stride in zip(g.dims, g.strides, strict=True):
        last = last + (size - 1) * stride
    is_inside = not shape_env.less(g.offset, 0) and shape_env.less(last, total)
    if not is_inside and not any(shape_env.is_zero(size) for size in g.dims):
        raise outside_storage(g, total)
    return g


def reach(g: Geometry) -> Dim:
    """How many elements a storage must have for a geometry that shows some: up to the last of them."""
    last = g.offset + 1
    for size, stride in zip(g.dims, g.strides, strict=True):
        last = last + (size - 1) * stride
    return last


def repeats_elements(g: Geometry) -> bool:
    """Whether some element is shown more than once because a stride is 0."""
    return 0 not in g.dims and any(s == 0 and n != 1 for n, s in zip(g.dims, g.strides, strict=True))


def may_repeat(dims: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    """Whether two elements may lie at one place: exact for strides that nest, else (and for symbols) a safe guess."""
    if any(type(d) is int and d == 0 for d in dims):
        return False
    if not all(type(n) is int for n in (*dims, *strides)):
        return True
    reach = 0
    for stride, size in sorted((s, d) for s, d in zip(strides, dims, strict=True) if d != 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)  # type: ignore[assignment]
    return False


def is_contiguous(g: Geometry) -> bool:
    """Whether elements lie row-major without gaps (dims of size 1 may have any stride)."""
    expected: Dim = 1
    for size, stride in zip(reversed(g.dims), reversed(g.strides), strict=True):
        if is_one(size):
            continue
        if not (stride == expected or shape_env.equal(size, 1) or shape_env.equal(stride, expected)):
            return any(isinstance(d, int) and d == 0 for d in g.dims)
        expected = expected * size
    return True


def merge_strides(g: Geometry, dims: Dims) -> Dims | None:
    """Strides that show `g` with other dims of the same number of elements, or None when only a copy can.

    Gives PyTorch's strides, those of dims of size 1 included.
    """
    if any(isinstance(d, int) and d == 0 for d in g.dims):
        return g.strides if g.dims == dims else contiguous_strides(dims)
    if g.dims == dims and not any(is_one(d) for d in dims):
        return g.strides
    if not g.dims or g.strides == contiguous_strides(g.dims):
        return contiguous_strides(dims)
    return _split_runs(_runs(g), dims)


def _runs(g: Geometry) -> list[tuple[Dim, Dim]]:
    """Runs of dims that lie contiguous to each other, as (number of elements, stride of the innermost),
    innermost first."""
    runs: list[tuple[Dim, Dim]] = []
    size, base = g.dims[-1], g.strides[-1]
    for d, stride in zip(reversed(g.dims[:-1]), reversed(g.strides[:-1]), strict=True):
        if is_one(d) or _same(stride, size * base):
            size = size * d
        else:
            runs.append((size, base))
            size, base = d, stride
    return [*runs, (size, base)]


def _split_runs(runs: list[tuple[Dim, Dim]], dims: Dims) -> Dims | None:
    """Cut the runs into `dims`, innermost first; dims of size 1 belong to the run before them,
    and what is left to the last run."""
    strides: list[Dim] = [1] * len(dims)
    at = len(dims) - 1
    for size, base in runs[:-1]:
        taken: Dim = 1
        is_certain = _is_reached(size, dims, at)  # then no question about sizes is needed on the way
        while at >= 0 and (is_one(dims[at]) or not (taken == size if is_certain else _same(taken, size))):
            strides[at] = base * taken
            taken = taken * dims[at]
            at -= 1
        if not (taken == size if is_certain else _same(taken, size)):
            return None
    taken, base = 1, runs[-1][1]
    for i in range(at, -1, -1):  # as many elements as the last run has, for both sides have the same number in all
        strides[i] = base * taken
        taken = taken * dims[i]
    return tuple(strides)


def _is_reached(size: Dim, dims: Dims, at: int) -> bool:
    """Whether a product of dims up to `at`, taken from there outwards, is `size` by structure alone."""
    taken: Dim = 1
    while taken != size and at >= 0:
        taken = taken * dims[at]
        at -= 1
    return taken == size


def _same(a: Dim, b: Dim) -> bool:
    return a == b or shape_env.equal(a, b)
