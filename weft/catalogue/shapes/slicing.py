"""Views that show a part along one dim: select, slice, narrow, split, chunk, unbind."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.catalogue.shapes.batching import moved_dim
from weft.catalogue.shapes.twins import view
from weft.ops.geometry import Geometry
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text, normalize_dim
from weft.support.errors import IndexBoundsError, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim


def along(at: int, *items: Any) -> tuple[Any, ...]:
    """The NumPy index that takes everything of the dims before `at`."""
    return (*(slice(None),) * at, *items)


def with_dim(g: Geometry, at: int, size: Dim, stride: Dim, offset: Dim) -> Geometry:
    return Geometry((*g.dims[:at], size, *g.dims[at + 1 :]), (*g.strides[:at], stride, *g.strides[at + 1 :]), offset)


def _select(g: Geometry, dim: int, index: Dim) -> Geometry:
    if g.ndim == 0:
        raise IndexBoundsError("select() cannot be applied to a 0-dim tensor.")
    at = normalize_dim("select", dim, g.ndim)
    size = g.dims[at]
    if not (type(index) is int and type(size) is int and -size <= index < size):
        _refuse_out_of_range(index, size, g, at)
    place = _from_start(index, size)
    return Geometry(
        g.dims[:at] + g.dims[at + 1 :], g.strides[:at] + g.strides[at + 1 :], g.offset + place * g.strides[at]
    )


def _refuse_out_of_range(index: Dim, size: Dim, g: Geometry, at: int) -> None:
    def out_of_range() -> IndexBoundsError:
        return IndexBoundsError(
            f"select(): index {index} out of range for tensor of size {dims_text(g.dims)} at dimension {at}"
        )

    shape_env.refuse_less(index + size, 0, out_of_range)
    shape_env.refuse_less(size, index + 1, out_of_range)


def _from_start(index: Dim, size: Dim) -> Dim:
    """An index within its bounds, counted from the first element."""
    if shape_env.is_never_less(index, 0):
        return index
    if shape_env.is_known(index):
        return index + size if shape_env.less(index, 0) else index
    return dm.mod(index, size)  # only the run knows from which end it counts


def _select_index(dims: tuple[int, ...], dim: int, index: int) -> Any:
    at = dim + len(dims) if dim < 0 else dim
    return along(at, index, ...) if 0 <= at < len(dims) and -dims[at] <= index < dims[at] else None


select = view(
    "aten::select.int(Tensor(a) self, int dim, int index) -> Tensor(a)",
    "The slice at one index of a dim; the dim goes away.",
    _select,
    index=_select_index,
    batch=moved_dim("select"),
    public_scatter=True,
    samples=draw(case(F(2, 3, 4), 1, 2), case(F(3), -1, -2)),
    reference=lambda x, dim, index: np.take(x, index, dim),
)


def clamp_index(index: Dim, size: Dim) -> Dim:
    """A slice bound in [0, size]: negative ones count from the end. Symbols that are known only while running give min
    and max."""
    if _hangs_on_the_run(index) or _hangs_on_the_run(size):
        if not shape_env.is_never_less(index, 0):
            index = index + size * dm.minimum(dm.maximum(-index, 0), 1)  # once where it is negative
        first = dm.maximum(index, 0)
        return first if shape_env.is_never_less(size, first) else dm.minimum(first, size)
    if shape_env.less(index, 0):
        index = index + size
        if shape_env.less(index, 0):
            return 0
    return size if shape_env.less(size, index) else index


def _hangs_on_the_run(d: Dim) -> bool:
    return any(name.startswith("u") for name in dm.symbols(d))


def _slice(g: Geometry, dim: int, start: Dim | None, end: Dim | None, step: int) -> Geometry:
    if g.ndim == 0:
        raise ShapeError("slice() cannot be applied to a 0-dim tensor.")
    at = normalize_dim("slice", dim, g.ndim)
    if not shape_env.less(0, step):
        raise ShapeError("slice step must be positive")
    size = g.dims[at]
    first = 0 if start is None else clamp_index(start, size)
    last = size if end is None else clamp_index(end, size)
    if _hangs_on_the_run(first) or _hangs_on_the_run(last):
        length = dm.maximum(last - first, 0)
    else:
        length = 0 if shape_env.less(last, first) else last - first
    count = length if isinstance(step, int) and step == 1 else dm.floordiv(length + (step - 1), step)
    return with_dim(g, at, count, g.strides[at] * step, g.offset + first * g.strides[at])


def _slice_index(dims: tuple[int, ...], dim: int, start: int | None, end: int | None, step: int) -> Any:
    at = dim + len(dims) if dim < 0 else dim
    return along(at, slice(start, end, step)) if 0 <= at < len(dims) and step > 0 else None


slice_ = view(
    "aten::slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)",
    "Every step-th element of a dim from start up to end; bounds clamp to the size, negative ones count from the end.",
    _slice,
    index=_slice_index,
    batch=moved_dim("slice"),
    public_copy=True,
    public_scatter=True,
    public=(),
    samples=draw(case(F(5, 3), 0, 1, 4, 2), case(F(5, 3), 1, -2, None), case(F(4), 0, 3, 100), case(F(4), 0, 3, 1)),
)


def _narrow(self: Any, dim: int, start: Any, length: Dim) -> Any:
    if self.ndim == 0:
        raise ShapeError("narrow() cannot be applied to a 0-dim tensor.")
    at = normalize_dim("narrow", dim, self.ndim)
    size = self.dims[at]
    shape_env.refuse_less(length, 0, lambda: ShapeError("narrow(): length must be non-negative."))
    first = start
    if shape_env.less(first, 0):
        first = first + size
    if shape_env.less(first, 0) or shape_env.less(size, first):
        raise IndexBoundsError(f"start out of range (expected to be in range of [-{size}, {size}], but got {start})")
    shape_env.refuse_less(size, first + length, lambda: ShapeError(
        f"start ({first}) + length ({length}) exceeds dimension size ({size})."
    ))
    return aten.slice(self, at, first, first + length)


def _narrow_from(self: Any, dim: int, start: Any, length: Dim) -> Any:
    if start.ndim or start.dtype.category > dt.INT or start.dtype is dt.bool_:
        raise ShapeError("start must be an 0-dim integral Tensor.")
    return _narrow(self, dim, start.item(), length)


define(
    "aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, int length) -> Tensor(a)",
    "`length` elements of a dim, from a 0-dim tensor's value on.",
    decompose=_narrow_from,
)
define(
    "aten::narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)",
    "`length` elements of a dim, from `start` on.",
    decompose=_narrow,
    samples=draw(case(F(5, 3), 0, 1, 3), case(F(5, 3), -1, -2, 2)),
)
define(
    "aten::narrow_copy(Tensor self, int dim, int start, int length) -> Tensor",
    "A copy of `length` elements of a dim, from `start` on.",
    decompose=lambda self, dim, start, length: aten._contiguous_copy(_narrow(self, dim, start, length)),
    out=True,
    samples=draw(case(F(5, 3), 0, 1, 3), case(F(5, 3), -1, -2, 2)),
)

# ---- several views at once


def _pieces(g: Geometry, at: int, sizes: Sequence[Dim]) -> tuple[Geometry, ...]:
    parts, start = [], g.offset
    for size in sizes:
        parts.append(with_dim(g, at, size, g.strides[at], start))
        start = start + size * g.strides[at]
    return tuple(parts)


def split_sizes(size: Dim, split_size: Dim) -> list[Dim]:
    """The sizes of the pieces of a dim cut every `split_size`; the last may be smaller."""
    if shape_env.equal(split_size, 0):
        if not shape_env.equal(size, 0):
            raise ShapeError(
                f"split: split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )
        return [0]
    if shape_env.less(split_size, 0):
        raise ShapeError(f"split: expects split_size be non-negative, but got split_size={split_size}")
    if split_size == size:
        return [size]
    count = max(1, shape_env.fixed(dm.floordiv(size + (split_size - 1), split_size)))
    return [split_size] * (count - 1) + [size - split_size * (count - 1)]


def _split(g: Geometry, split_size: Dim, dim: int) -> tuple[Geometry, ...]:
    if g.ndim == 0:
        raise ShapeError("split expects at least a 1-dimensional tensor")
    at = normalize_dim("split", dim, g.ndim)
    return _pieces(g, at, split_sizes(g.dims[at], split_size))


def _split_with_sizes(g: Geometry, sizes: Sequence[Dim], dim: int) -> tuple[Geometry, ...]:
    if g.ndim == 0:
        raise ShapeError("split expects at least a 1-dimensional tensor")
    at = normalize_dim("split_with_sizes", dim, g.ndim)
    shape_env.refuse_negative(sizes, lambda: ShapeError(
        f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={dims_text(sizes)}"
    ))
    total: Dim = 0
    for s in sizes:
        total = total + s
    if not shape_env.equal(total, g.dims[at]):
        raise ShapeError(
            f"split_with_sizes expects split_sizes to sum exactly to {g.dims[at]} (input tensor's size at dimension "
            f"{at}), but got split_sizes={dims_text(sizes)}"
        )
    return _pieces(g, at, sizes)


def _filled(gs: Sequence[Any], dims: Sequence[tuple[Dim, ...]]) -> list[Any]:
    """Cotangents with zeros in place of those that nothing contributed to."""
    like = next(g for g in gs if g is not None)
    return [aten.new_zeros(like, d) if g is None else g for g, d in zip(gs, dims, strict=True)]


def _cat_back(gs: Sequence[Any], self_dims: tuple[Dim, ...], sizes: Sequence[Dim], dim: int) -> Any:
    at = normalize_dim("split", dim, len(self_dims))
    return aten.cat(_filled(gs, [(*self_dims[:at], s, *self_dims[at + 1 :]) for s in sizes]), at)


split = view(
    "aten::split.Tensor(Tensor(a) self, int split_size, int dim=0) -> Tensor(a)[]",
    "The pieces of a dim cut every `split_size` elements.",
    _split,
    vjp={
        "self": lambda gs, self_dims, split_size, dim: _cat_back(
            gs, self_dims, split_sizes(self_dims[dim], split_size), dim
        ),
    },
    batch=moved_dim("split", 1),
    samples=draw(case(F(5, 3), 2), case(F(2, 4), 2, -1)),
    reference=lambda x, size, dim: tuple(np.split(x, range(size, x.shape[dim], size), dim)),
)

for _schema in (
    "aten::split.sizes(Tensor(a) self, int[] split_size, int dim=0) -> Tensor(a)[]",
    "aten::split_with_sizes(Tensor(a) self, int[] split_sizes, int dim=0) -> Tensor(a)[]",
):
    view(
        _schema,
        "The pieces of a dim, of these sizes.",
        _split_with_sizes,
        node="SplitWithSizesBackward0.split" if "split_size," in _schema else "",
        vjp={
            "self": (lambda gs, self_dims, split_size, dim: _cat_back(gs, self_dims, split_size, dim))
            if "split_size," in _schema
            else (lambda gs, self_dims, split_sizes, dim: _cat_back(gs, self_dims, split_sizes, dim))
        },
        batch=moved_dim("split" if "split_size," in _schema else "split_with_sizes", 1),
    )


def _chunk(self: Any, chunks: int, dim: int) -> Any:
    if self.ndim == 0:
        raise ShapeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise ShapeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    at = normalize_dim("chunk", dim, self.ndim)
    size = self.dims[at]
    each = dm.floordiv(size + (chunks - 1), chunks)
    if shape_env.equal(size, 0):
        return aten.split_with_sizes(self, [0] * chunks, at)
    return aten.split(self, each, at)


define(
    "aten::chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]",
    "At most `chunks` pieces of a dim of equal size; the last may be smaller.",
    decompose=_chunk,
    samples=draw(case(F(5, 3), 2), case(F(2, 4), 4, 1)),
)


define(
    "aten::unsafe_split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]",
    "split whose pieces have memory of their own.",
    decompose=lambda self, split_size, dim: aten.split_copy(self, split_size, dim),
    samples=draw(case(F(5, 3), 2), case(F(2, 4), 2, -1)),
    reference=split.reference,
)

define(
    "aten::unsafe_split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
    "split_with_sizes whose pieces have memory of their own.",
    decompose=lambda self, split_sizes, dim: aten.split_with_sizes_copy(self, split_sizes, dim),
    samples=draw(case(F(5, 3), (2, 3))),
)

define(
    "aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
    "chunk whose pieces have memory of their own.",
    decompose=lambda self, chunks, dim: tuple(aten.clone(t) for t in aten.chunk(self, chunks, dim)),
    samples=draw(case(F(5, 3), 2), case(F(2, 4), 4, 1)),
)


def _tensor_split(self: Any, sections: int, dim: int) -> Any:
    if self.ndim == 0:
        raise ShapeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    if sections <= 0:
        raise ShapeError(f"number of sections must be larger than 0, got {sections}")
    at = normalize_dim("tensor_split", dim, self.ndim)
    sections = shape_env.decided(sections)
    least, longer = divmod(shape_env.fixed(self.dims[at]), sections)
    bounds = [i * least + min(i, longer) for i in range(sections + 1)]
    return tuple(aten.slice(self, at, a, b) for a, b in itertools.pairwise(bounds))


def _tensor_split_at(self: Any, indices: Sequence[Dim], dim: int) -> Any:
    if self.ndim == 0:
        raise ShapeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    bounds = [0, *indices, self.dims[normalize_dim("tensor_split", dim, self.ndim)]]
    return tuple(aten.slice(self, dim, a, b) for a, b in itertools.pairwise(bounds))


def _tensor_split_by(self: Any, tensor_indices_or_sections: Any, dim: int) -> Any:
    splits = tensor_indices_or_sections
    if splits.dtype is not dt.int64:
        raise ShapeError(
            f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got {splits.dtype}"
        )
    if splits.ndim > 1:
        raise ShapeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
            f"but got {splits.ndim}D"
        )
    values = [splits] if splits.ndim == 0 else aten.unbind(splits)
    numbers = [v.item() for v in values]
    return _tensor_split(self, numbers[0], dim) if splits.ndim == 0 else _tensor_split_at(self, numbers, dim)


define(
    "aten::tensor_split.tensor_indices_or_sections(Tensor(a) self, Tensor tensor_indices_or_sections, int dim=0) "
    "-> Tensor(a)[]",
    "The pieces of a dim: as many as a 0-dim tensor says, or between the indices that a vector holds.",
    decompose=_tensor_split_by,
)
define(
    "aten::tensor_split.sections(Tensor(a) self, int sections, int dim=0) -> Tensor(a)[]",
    "Exactly `sections` pieces of a dim, the first ones longer by one where it does not divide.",
    decompose=_tensor_split,
)
define(
    "aten::tensor_split.indices(Tensor(a) self, int[] indices, int dim=0) -> Tensor(a)[]",
    "The pieces of a dim between these indices.",
    decompose=_tensor_split_at,
)


def _unbind(g: Geometry, dim: int) -> tuple[Geometry, ...]:
    if g.ndim == 0:
        raise IndexBoundsError("Dimension specified as 0 but tensor has no dimensions")
    at = normalize_dim("unbind", dim, g.ndim)
    return tuple(_select(g, at, i) for i in range(shape_env.fixed(g.dims[at])))


def _unbind_back(gs: Sequence[Any], self_dims: tuple[Dim, ...], dim: int) -> Any:
    at = normalize_dim("unbind", dim, len(self_dims))
    return aten.stack(_filled(gs, [(*self_dims[:at], *self_dims[at + 1 :])] * len(gs)), at)


unbind = view(
    "aten::unbind.int(Tensor(a) self, int dim=0) -> Tensor(a)[]",
    "All slices along a dim, which goes away.",
    _unbind,
    vjp={"self": _unbind_back},
    batch=moved_dim("unbind"),
    samples=draw(case(F(2, 3)), case(F(2, 3), -1)),
    reference=lambda x, dim: tuple(np.moveaxis(x, dim, 0)),
)
