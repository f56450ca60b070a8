"""What indices must satisfy, and how PyTorch's advanced indexing reads as NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.ops.geometry import Geometry
from weft.ops.layout import Operand, Orders, joint_strides, order_like
from weft.ops.rules import dims_text
from weft.support.errors import DTypeError, IndexBoundsError, OutOfBounds, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType

Array = Any
_INDEX_DTYPES = (dt.int64, dt.int32, dt.uint8)
_ADVANCED_DTYPES = (dt.int64, dt.int32, dt.bool_, dt.uint8)


def check_index_dtype(name: str, index: TensorType) -> None:
    """int64 or int32, else DTypeError."""
    if index.dtype is not None and index.dtype not in _INDEX_DTYPES:
        raise DTypeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}")


def check_bounds(index: Array, size: int, dim: int, text: str = "") -> None:
    """All of `index` in [0, size), else OutOfBounds that names the first offender."""
    if index.size == 0:
        return
    low, high = int(index.min()), int(index.max())
    if low >= 0 and high < size:
        return
    wrong = low if low < 0 else high
    raise OutOfBounds(f"{text}: " * bool(text) + f"index {wrong} is out of bounds for dimension {dim} with size {size}")


def drop_trailing(indices: Sequence[Any]) -> list[Any]:
    """The indices without the Nones after the last tensor."""
    kept = list(indices)
    while kept and kept[-1] is None:
        kept.pop()
    return kept


def is_mask(dtype: dt.DType | None) -> bool:
    """bool, or uint8, which older programs use for masks."""
    return dtype is dt.bool_ or dtype is dt.uint8


def indexed_dims(
    self: TensorType, indices: Sequence[TensorType | None], share_of: Callable[[tuple[Dim, ...]], Dim | None]
) -> tuple[Dim | None, ...]:
    """The dims of an advanced indexing. Raises IndexBoundsError for too many or unfit indices."""
    dims = self.shape
    axis = 0
    used: list[int] = []
    shapes: list[tuple[Dim | None, ...]] = []
    for index in indices:
        if index is None:
            axis += 1
            continue
        if index.dtype not in _ADVANCED_DTYPES:
            raise IndexBoundsError("tensors used as indices must be long, int, byte or bool tensors")
        width = index.ndim if is_mask(index.dtype) else 1
        if axis + width > len(dims):
            raise IndexBoundsError(f"too many indices for tensor of dimension {len(dims)}")
        if is_mask(index.dtype):
            _check_mask(index, dims, axis)
            shapes.append((share_of(index.shape),))
        else:
            shapes.append(index.shape)
        used.extend(range(axis, axis + width) if width else (axis,))
        axis += width
    if axis > len(dims):
        raise IndexBoundsError(f"too many indices for tensor of dimension {len(dims)}")
    joint = _broadcast(shapes, share_of)
    rest = [d for i, d in enumerate(dims) if i not in used or _is_new(indices, used)]
    if _is_new(indices, used):
        return (*joint, *dims)
    adjacent = not used or used == list(range(used[0], used[-1] + 1))
    at = used[0] if used and adjacent else 0
    return (*rest[:at], *joint, *rest[at:])


def index_orders(self: Operand, indices: Sequence[Operand | None]) -> Orders:
    """How the result of an advanced indexing lies: the dims of self that stay as they do in self, those of the indices
    as in the first of these that tells, and the rest as they come.
    """
    axis = 0
    used: list[int] = []
    rows: list[Geometry] = []
    for index in indices:
        width = index.ndim if index is not None and is_mask(index.dtype) else 1
        if index is not None:
            rows.append(_FOUND if is_mask(index.dtype) else index)
            used.extend(range(axis, axis + width))
        axis += width
    rest = [i for i in range(self.ndim) if i not in used]
    at = used[0] if used and used == list(range(used[0], used[-1] + 1)) else 0
    sizes: Any = [row.dims for row in rows]  # integers
    joint = np.broadcast_shapes(*[(1,) if dims is _FOUND.dims and len(rows) > 1 else dims for dims in sizes])
    before, after = rest[:at], rest[at:]
    dims = (*[self.dims[i] for i in before], *joint, *[self.dims[i] for i in after])
    gap = (0,) * len(joint)
    strides = [0 if d == 1 else s for d, s in zip(self.dims, self.strides, strict=True)]
    kept = Geometry(dims, (*[strides[i] for i in before], *gap, *[strides[i] for i in after]))
    picked = [Geometry((*r.dims, *(1,) * len(after)), (*r.strides, *(0,) * len(after))) for r in rows]
    return (order_like(Geometry(dims, joint_strides(dims, [kept, *picked]))),)


_FOUND = Geometry((2,), (1,))  # the places that a mask finds: a row of some length


def _meet(a: Dim, b: Dim, share_of: Callable[[tuple[Dim, ...]], Dim | None]) -> Dim | None:
    """What sizes broadcast to of which the run finds one or both; the run sees whether they do."""
    size, dynamic = (a, b) if shape_env.is_known(a) else (b, a)
    if shape_env.is_known(size):
        return dynamic if shape_env.equal(size, 1) else size
    return share_of((dm.maximum(a, b),))


def _is_new(indices: Sequence[TensorType | None], used: Sequence[int]) -> bool:
    """A single 0-dim mask adds a dim and consumes none."""
    present = [i for i in indices if i is not None]
    return len(present) == 1 and is_mask(present[0].dtype) and present[0].ndim == 0


def _check_mask(mask: TensorType, dims: tuple[Dim, ...], axis: int) -> None:
    for i, d in enumerate(mask.shape):
        if not shape_env.equal(d, dims[axis + i]):
            raise IndexBoundsError(
                f"The shape of the mask {dims_text(mask.shape)} at index {i} does not match the shape of the indexed "
                f"tensor {dims_text(dims)} at index {axis + i}"
            )


def _broadcast(
    shapes: Sequence[tuple[Dim | None, ...]], share_of: Callable[[tuple[Dim, ...]], Dim | None]
) -> tuple[Dim | None, ...]:
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim | None] = [1] * rank
    for shape in shapes:
        for i, d in enumerate(shape, rank - len(shape)):
            joint = out[i]
            if joint == d or (isinstance(d, int) and d == 1):
                continue
            if isinstance(joint, int) and joint == 1:
                out[i] = d
            elif joint is None or d is None:
                out[i] = joint if d is None else d
            elif not (shape_env.is_known(joint) and shape_env.is_known(d)):
                out[i] = _meet(joint, d, share_of)
            elif shape_env.equal(joint, d) or shape_env.equal(d, 1):
                continue
            elif shape_env.equal(joint, 1):
                out[i] = d
            else:
                raise _apart(shapes)
    return tuple(out)


def _apart(shapes: Sequence[tuple[Any, ...]]) -> IndexBoundsError:
    texts = ", ".join(map(dims_text, shapes))
    return IndexBoundsError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {texts}")


def indexed(x: Array, indices: Sequence[Array | None]) -> Array:
    """x[indices]. NumPy's own checks come first; ours, which take longer than short picks,
    have the words when it refuses."""
    try:
        return np.asarray(x[numpy_index(x, indices, is_checked=False)])
    except IndexError:
        index = numpy_index(x, indices)
        shapes = [i.shape for i in index if not isinstance(i, slice)]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            raise _apart(shapes) from None
        return np.asarray(x[index])


def numpy_index(x: Array, indices: Sequence[Array | None], is_checked: bool = True) -> tuple[Any, ...]:
    """The NumPy index of an advanced indexing, bounds checked unless NumPy will do that.
    Raises IndexBoundsError as PyTorch words it."""
    out: list[Any] = []
    axis = 0
    for index in drop_trailing(indices):
        if index is None:
            out.append(slice(None))
            axis += 1
        elif index.dtype == np.bool_ or index.dtype == np.uint8:
            mask = index.astype(np.bool_, copy=False)
            if mask.ndim == 0:
                out.append(mask)
                continue
            out.extend(np.nonzero(mask))
            axis += mask.ndim
        else:
            if is_checked:
                _check_wrapping(index, x.shape[axis], axis)
            out.append(index)
            axis += 1
    return tuple(out)


def _check_wrapping(index: Array, size: int, axis: int) -> None:
    if index.size == 0:
        return
    low, high = int(index.min()), int(index.max())
    if low < -size or high >= size:
        if size == 0:
            raise IndexBoundsError("index is out of bounds for dimension with size 0")
        wrong = low if low < -size else high
        raise IndexBoundsError(f"index {wrong} is out of bounds for dimension {axis} with size {size}")


def expand_values(values: Array, shape: tuple[int, ...]) -> Array:
    """Values broadcast to the shape of what is indexed. Raises ShapeError."""
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ShapeError(
            f"shape mismatch: value tensor of shape {dims_text(values.shape)} cannot be broadcast to indexing result "
            f"of shape {dims_text(shape)}"
        ) from None
