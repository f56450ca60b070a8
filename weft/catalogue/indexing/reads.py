"""Picking elements: gather, index_select, take, index (advanced indexing), masked_select, nonzero, searchsorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.catalogue.indexing.checks import (
    check_bounds,
    check_index_dtype,
    index_orders,
    indexed,
    indexed_dims,
    is_mask,
)
from weft.catalogue.samples import B, F, I, case, draw
from weft.catalogue.shapes.rearranging import share_of
from weft.ops.batching import Flags, along, everywhere, shifted, whole
from weft.ops.layout import ROW_MAJOR, Follows
from weft.ops.op import NOT_DIFFERENTIABLE, Op, Out, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import broadcast_dims, dims_text, normalize_dim, same_dims
from weft.ops.tangents import linear
from weft.support.errors import DTypeError, OutOfBounds, ShapeError, StateError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any

# ---- along one dim


def check_gather(name: str, self: TensorType, dim: int, index: TensorType) -> None:
    """What gather and the scatters ask of `index`: integers, the rank of self, and sizes within self's outside
    of `dim`."""
    check_index_dtype(name, index)
    if not (self.is_complete and index.is_complete):
        return
    at = normalize_dim(name, dim, self.ndim)
    for i in larger_dims(index, self, "input", at):
        raise ShapeError(
            f"Size does not match at dimension {i} expected index {dims_text(index.shape)} to be no larger than "
            f"self {dims_text(self.shape)} apart from dimension {at}"
        )


def larger_dims(index: TensorType, of: TensorType, role: str, at: int | None = None) -> Iterator[int]:
    """The dims other than `at` in which an index that is not empty is larger than the tensor that it is for. Raises
    ShapeError if their ranks differ.
    """
    if any(isinstance(d, int) and d == 0 for d in index.shape):
        return
    if max(of.ndim, 1) != max(index.ndim, 1):
        if any(map(shape_env.is_zero, index.shape)):
            return
        raise ShapeError(f"Index tensor must have the same number of dimensions as {role} tensor")
    for i, (a, b) in enumerate(zip(of.shape, index.shape, strict=False)):
        if i != at and a != b and shape_env.less(a, b) and not any(map(shape_env.is_zero, index.shape)):
            yield i


def _gather_type(self: TensorType, dim: int, index: TensorType, sparse_grad: bool) -> TensorType:
    check_gather("gather", self, dim, index)
    return tensor_type(self.dtype, index.dims, self.device)


def window(x: Array, index: Array, at: int) -> Array:
    """The part of x whose dims other than `at` are those of the index."""
    return x[tuple(slice(None) if i == at else slice(0, n) for i, n in enumerate(index.shape))]


def _gather(x: Array, dim: int, index: Array, sparse_grad: bool) -> Array:
    if index.size == 0:
        return np.empty(index.shape, x.dtype)
    shape = index.shape
    x, index = np.atleast_1d(x), np.atleast_1d(index)
    at = dim % x.ndim
    check_bounds(index, x.shape[at], at)
    return np.take_along_axis(window(x, index, at), index, at).reshape(shape)


gather = define(
    "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    "out[i][j] = self[index[i][j]][j] for dim 0, and so on for the other dims.",
    type=_gather_type,
    kernel=_gather,
    vjp={"self": lambda g, self_dims, dim, index: aten.scatter_add(aten.new_zeros(g, self_dims), dim, index, g)},
    batch=along("dim"), jvp=linear,
    effect="raises",
    out=Out(is_apart=True),
    samples=draw(case(F(3, 4), 0, I(2, 4, high=3)), case(F(3, 4), -1, I(3, 2, high=4))),
)


def _index_select_type(self: TensorType, dim: int, index: TensorType) -> TensorType:
    check_index_dtype("index_select", index)
    if not (self.is_complete and index.is_complete):
        return tensor_type(self.dtype, None)
    at = normalize_dim("index_select", dim, self.ndim)
    if index.ndim > 1:
        raise OutOfBounds("index_select(): Index is supposed to be a vector")
    if self.ndim == 0:
        return self
    return self.with_dims((*self.shape[:at], dm.product(index.shape), *self.shape[at + 1 :]))


def _index_select(x: Array, dim: int, index: Array) -> Array:
    at = dim % max(x.ndim, 1)
    check_bounds(index, x.shape[at] if x.ndim else 1, at, "index out of range in self")
    if x.ndim == 0:
        return x.copy()
    return np.take(x, index.reshape(-1), at)


def _index_select_batch(op: Op, size: Dim, flags: Flags, self: Any, dim: int, index: Any) -> Any:
    rank = self.ndim - bool(flags[0])
    if not flags[2] and rank:
        return aten.index_select(self, shifted(dim, rank), index)
    x, places = everywhere(size, (flags[0], flags[2]), (self, index))
    if rank == 0:
        x = aten.unsqueeze(x, 1)
    if places.ndim == 1:
        places = aten.unsqueeze(places, 1)
    at = shifted(dim, rank)
    shaped = aten.reshape(places, (size, *(1,) * (at - 1), places.dims[1], *(1,) * (x.ndim - at - 1)))
    dims = tuple(places.dims[1] if i == at else d for i, d in enumerate(x.dims))
    out = aten.gather(x, at, aten.expand(shaped, dims))
    return aten.squeeze(out, 1) if rank == 0 else out


index_select = define(
    "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor",
    "The slices along dim at the places that `index` (a vector) lists.",
    type=_index_select_type,
    kernel=_index_select,
    vjp={"self": lambda g, self_dims, dim, index: aten.index_add(aten.new_zeros(g, self_dims), dim, index, g)},
    batch=_index_select_batch, jvp=linear,
    effect="raises",
    out=Out(is_apart=True),
    samples=draw(case(F(3, 4), 0, I(5, high=3)), case(F(3, 4), -1, I(2, high=4))),
    reference=lambda x, dim, index: np.take(x, index, dim),
)


def _take(self: Any, index: Any) -> Any:
    flat = aten.reshape(self, (dm.product(self.dims),))
    return aten.index(flat, (index,))


define(
    "aten::take(Tensor self, Tensor index) -> Tensor", "The elements at these places of the flattened tensor.",
    decompose=_take, lies=ROW_MAJOR, out=Out(is_apart=True),
)


def _take_along_dim(self: Any, indices: Any, dim: int | None) -> Any:
    if indices.dtype is not dt.int64:
        raise DTypeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype}")
    if dim is None:
        return aten.gather(
            aten.reshape(self, (dm.product(self.dims),)), 0, aten.reshape(indices, (dm.product(indices.dims),))
        )
    if self.ndim != indices.ndim:
        raise ShapeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {self.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    at = normalize_dim("take_along_dim", dim, self.ndim)
    rest = broadcast_dims("take_along_dim", [(*x.dims[:at], *x.dims[at + 1 :]) for x in (self, indices)])
    wide, joint = ((*rest[:at], x.dims[at], *rest[at:]) for x in (self, indices))
    wrapped = aten.remainder(indices, self.dims[at])  # negative ones count from the end
    return aten.gather(aten.expand(self, wide), at, aten.expand(wrapped, joint))


define(
    "aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    "The elements that `indices` picks along dim; other dims broadcast.",
    decompose=_take_along_dim,
    out=True,
    samples=draw(case(F(3, 4), I(3, 2, high=4), 1)),
    reference=lambda x, index, dim: np.take_along_axis(x, index, dim),
)

# ---- advanced indexing


def _index_type(self: TensorType, indices: Sequence[TensorType | None]) -> TensorType:
    if not self.is_complete or any(i is not None and not i.is_complete for i in indices):
        return tensor_type(self.dtype, None)
    dims = indexed_dims(self, indices, share_of)
    return tensor_type(self.dtype, dims, self.device)


def _index(x: Array, indices: Sequence[Array | None]) -> Array:
    return indexed(x, indices)


def how_often(mask: Any) -> Any:
    """How often a mask holds, as a 0-dim tensor."""
    return aten.sum(mask, tuple(range(mask.ndim)), dtype=dt.int64)


def _count_of_index(self: Any, indices: Any) -> Any:
    """How often a mask holds that is the only index."""
    tensors = [index for index in indices if index is not None]
    return how_often(tensors[0]) if len(tensors) == 1 and tensors[0].dtype is dt.bool_ else None


class BatchedIndex:
    """Advanced indexing with the indexed dims brought together behind the batch."""

    def __init__(self, size: Dim, rank: int, indices: Any, flags: Any) -> None:
        listed = _integers(indices, flags)
        self.size = size
        self.axes = [i for i, (index, _) in enumerate(listed) if index is not None]
        self.rest = [i for i in range(rank) if i not in self.axes]
        self.order = (0, *(a + 1 for a in self.axes), *(r + 1 for r in self.rest))
        chosen = [listed[a] for a in self.axes]
        self.rank = max(index.ndim - bool(flag) for index, flag in chosen)
        first = aten.reshape(aten._iota(size), (size, *(1,) * self.rank))
        self.indices = (first, *(self._aligned(index, flag) for index, flag in chosen))
        adjacent = self.axes[-1] - self.axes[0] == len(self.axes) - 1
        self.place = self.axes[0] if adjacent else 0

    def _aligned(self, index: Any, flag: bool) -> Any:
        """An index whose own dims end where those of the others end."""
        if not flag:
            return aten.unsqueeze(index, 0) if index.ndim == self.rank else index
        missing = self.rank - (index.ndim - 1)
        return aten.reshape(index, (self.size, *(1,) * missing, *index.dims[1:])) if missing else index

    def to_result(self, out: Any) -> Any:
        """[batch, *index dims, *rest] as the unbatched result has them."""
        return (
            aten.movedim(out, tuple(range(1, self.rank + 1)), tuple(range(self.place + 1, self.place + self.rank + 1)))
            if self.rank else out
        )

    def from_result(self, out: Any) -> Any:
        """The inverse of to_result."""
        return (
            aten.movedim(out, tuple(range(self.place + 1, self.place + self.rank + 1)), tuple(range(1, self.rank + 1)))
            if self.rank else out
        )


def _integers(indices: Any, flags: Any) -> list[tuple[Any, bool]]:
    """The indices with masks as the places where they hold."""
    out: list[tuple[Any, bool]] = []
    for index, flag in zip(indices, flags, strict=True):
        if index is None or index.dtype not in (dt.bool_, dt.uint8):
            out.append((index, flag))
        elif flag:
            raise StateError(
                "vmap: It looks like you're indexing with a mask that differs from example to example; "
                "the number of elements would differ too. Use weft.where(mask, x, other) and keep the shape."
            )
        else:
            out.extend((place, False) for place in aten.unbind(aten.nonzero(index), 1))
    return out


def _index_batch(op: Op, size: Dim, flags: Flags, self: Any, indices: Any) -> Any:
    x = self if flags[0] else whole(self, size)
    plan = BatchedIndex(size, x.ndim - 1, indices, flags[1])
    out = aten.index(aten.permute(x, plan.order), plan.indices)
    return plan.to_result(out)


index = define(
    "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "Advanced indexing: integer tensors broadcast together and pick elements; bool tensors stand for the places where "
    "they are True; None keeps a dim. The result's dims come where the indexed dims stood if those are "
    "adjacent, else first.",
    type=_index_type,
    kernel=_index,
    vjp={
        "self": lambda g, self_dims, indices: aten.index_put(aten.new_zeros(g, self_dims), indices, g, True),
    },
    batch=_index_batch, jvp=linear,
    effect="raises",
    lies=Follows(index_orders),
    public=(),
    unbacked_from=lambda self, indices: tuple(i for i in indices if i is not None and is_mask(i.tensor_type.dtype)),
    counted=_count_of_index,
    samples=draw(case(F(3, 4, 2), (I(5, high=3), None, I(5, high=2))), case(F(3, 4), (None, I(2, 2, high=4)))),
    reference=lambda x, indices: x[tuple(slice(None) if j is None else j for j in indices)],
)


def _masked_select_type(self: TensorType, mask: TensorType) -> TensorType:
    if mask.dtype is not None and mask.dtype is not dt.bool_:
        raise DTypeError("masked_select: expected BoolTensor for mask")
    dims = broadcast_dims("masked_select", [self.shape, mask.shape]) if self.is_complete and mask.is_complete else None
    return tensor_type(self.dtype, (share_of(dims),), self.device)


def _are_alike(self: TensorType, mask: TensorType) -> bool:
    """Whether a mask certainly has the dims of what it masks."""
    env = shape_env.current_env()
    if not (mask.is_complete and self.is_complete):
        return False
    return (
        mask.dims == self.dims
        or (env is not None and mask.ndim == self.ndim and all(map(env.proves_equal, mask.shape, self.shape)))
    )


def _masked_select(x: Array, mask: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


define(
    "aten::masked_select(Tensor self, Tensor mask) -> Tensor",
    "The elements where the mask (broadcast with self) holds, in row-major order.",
    type=_masked_select_type,
    kernel=_masked_select,
    vjp={"self": lambda g, self_dims, mask: _masked_select_back(g, self_dims, mask)},
    jvp=linear,
    unbacked_from=lambda self, mask: (
        mask if _are_alike(self.tensor_type, mask.tensor_type) else (mask, self.tensor_type.dims),
    ),
    counted=lambda self, mask: how_often(aten.expand(mask, broadcast_dims("masked_select", [self.dims, mask.dims]))),
    out=Out(is_apart=True),
    samples=draw(case(F(3, 4), B(3, 4)), case(F(3, 4), B(4))),
    dynamic_output_shape=True,
)


def _masked_select_back(g: Any, self_dims: tuple[Dim, ...], mask: Any) -> Any:
    """The cotangent at its places; masks with more dims than self give it those dims, and the engine sums them away."""
    zeros = aten.new_zeros(g, self_dims)
    whole, mask = aten.broadcast_tensors((zeros, mask))
    return aten.masked_scatter(whole, mask, g)


def _nonzero_type(self: TensorType) -> TensorType:
    return tensor_type(dt.int64, (share_of(self.dims), None if self.dims is None else len(self.dims)), self.device)


define(
    "aten::nonzero(Tensor self) -> Tensor",
    "The places of the elements that are not zero: [count, ndim], in row-major order.",
    type=_nonzero_type,
    kernel=lambda x: np.stack(np.nonzero(x), 1) if x.ndim else np.zeros((int(x != 0), 0), np.int64),
    vjp=NOT_DIFFERENTIABLE,
    unbacked_from=lambda self: (self,),
    counted=lambda self: how_often(self if self.dtype is dt.bool_ else aten.ne(self, 0)),
    lies=lambda self: ((1, 0),),
    out=True,
    samples=draw(case(B(3, 4)), case(F(3))),
    reference=lambda x: np.stack(np.nonzero(x), -1),
    dynamic_output_shape=True,
    implied={"as_tuple": False},
)

define(
    "aten::nonzero.as_tuple(Tensor self, *, bool as_tuple) -> Tensor[]",
    "nonzero as one vector for each dim (or, as_tuple=False, as one matrix).",
    decompose=lambda self, as_tuple: _nonzero_numpy(self) if as_tuple else aten.nonzero(self),
)
define("aten::argwhere(Tensor self) -> Tensor", "The places of the elements that are not zero: [count, ndim].",
       decompose=lambda self: aten.nonzero(self))


def _nonzero_static(self: Any, size: Dim, fill_value: int) -> Any:
    """The n-th such element is at the first place where that many have been counted."""
    shape_env.refuse_less(size, 0, lambda: ShapeError("nonzero_static: 'size' must be an non-negative integer"))
    if self.ndim == 0:
        return aten.zeros((size, 0), dtype=dt.int64)
    count = dm.product(self.dims)
    is_set = aten.reshape(self if self.dtype is dt.bool_ else aten.ne(self, 0), (count,))
    rank = aten.cumsum(is_set, 0) - 1
    slot = aten.where(aten.logical_and(is_set, rank < size), rank, size)  # (one more, for all others)
    flat = aten.scatter(aten.full((size + 1,), -1, dtype=dt.int64), 0, slot, aten._iota(count))
    flat = aten.narrow(flat, 0, 0, size)
    columns: list[Any] = []
    rest = flat
    for d in reversed(self.dims):
        columns.insert(0, aten.where(flat < 0, fill_value, aten.remainder(rest, dm.maximum(d, 1))))
        rest = aten.floor_divide(rest, dm.maximum(d, 1))
    return aten.stack(columns, 1)


define(
    "aten::nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
    "The places of the first `size` elements that are not zero, in row-major order: [size, ndim]. What is left of it, "
    "where there are fewer, is fill_value.",
    decompose=_nonzero_static,
    samples=draw(case(B(3, 4), size=5), case(F(3), size=2), case(B(2, 2, 2), size=9, fill_value=7)),
    reference=lambda x, size, fill_value: np.concatenate(
        [np.stack(np.nonzero(x), -1), np.full((size, x.ndim), fill_value)]
    )[:size],
)


def _nonzero_numpy(self: Any) -> Any:
    raised = aten.reshape(self, (1,)) if self.ndim == 0 else self
    return aten.unbind(aten.nonzero(raised), 1)


define(
    "aten::nonzero_numpy(Tensor self) -> Tensor[]",
    "The places of the elements that are not zero, one vector for each dim.", decompose=_nonzero_numpy, public=(),
)


# ---- sorted sequences


def _searchsorted_type(
    sorted_sequence: TensorType, self: Any, out_int32: bool, right: bool, side: str | None, sorter: TensorType | None
) -> TensorType:
    if side not in (None, "left", "right"):
        raise ShapeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise ShapeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    if isinstance(self, TensorType) and self.dims is not None and sorted_sequence.dims is not None:
        a, b = sorted_sequence.dims, self.dims
        is_known = sorted_sequence.is_complete and self.is_complete
        if len(a) != 1 and (
            len(a) != len(b) or len(a) == 0
            or (is_known and not same_dims(sorted_sequence.shape[:-1], self.shape[:-1]))
        ):
            raise ShapeError(
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                f"boundaries tensor and input value tensor must match, but we got boundaries tensor {dims_text(a)} and "
                f"input value tensor {dims_text(b)}"
            )
    dims = self.dims if isinstance(self, TensorType) else ()
    return tensor_type(dt.int32 if out_int32 else dt.int64, dims, sorted_sequence.device)


def _searchsorted(
    sequence: Array, values: Any, out_int32: bool, right: bool, side: str | None, sorter: Array | None
) -> Array:
    values = np.asarray(values)
    if sorter is not None:
        sequence = np.take_along_axis(sequence, sorter, -1)
    where: Any = "right" if right or side == "right" else "left"
    target = np.int32 if out_int32 else np.int64
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, values, where), target)
    positions = np.empty(values.shape, target)
    for place in np.ndindex(sequence.shape[:-1]):
        positions[place] = np.searchsorted(sequence[place], values[place], where)
    return positions


def _searchsorted_batch(
    op: Op, size: Dim, flags: Flags, sequence: Any, self: Any, out_int32: bool, right: bool, side: Any, sorter: Any
) -> Any:
    if not flags[0] and not flags[5] and sequence.ndim == 1:
        return call(op, (sequence, self, out_int32, right, side, sorter))
    sequence, _, sorter = everywhere(size, (flags[0], True, flags[5]), (sequence, None, sorter))
    values = self if flags[1] else whole(self, size)
    if sequence.ndim > 2:
        return call(op, (sequence, values, out_int32, right, side, sorter))
    return aten.reshape(
        call(op, (sequence, aten.reshape(values, (size, -1)), out_int32, right, side, sorter)), values.dims
    )


def _searchsorted_number_batch(op: Op, size: Dim, flags: Flags, sequence: Any, self: Any, *how: Any) -> Any:
    places = aten.searchsorted(
        sequence, aten.full((size, 1), self, dtype=sequence.dtype),
        **dict(zip(("out_int32", "right", "side", "sorter"), how, strict=True)),
    )
    return aten.reshape(places, (size,))


for _schema, _batch in (
    ("aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, "
     "str? side=None, Tensor? sorter=None) -> Tensor", _searchsorted_batch),
    ("aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, "
     "str? side=None, Tensor? sorter=None) -> Tensor", _searchsorted_number_batch),
):
    define(
        _schema,
        "Where each value would be inserted to keep the last dim of sorted_sequence sorted.",
        type=_searchsorted_type,
        kernel=_searchsorted,
        vjp=NOT_DIFFERENTIABLE,
        batch=_batch,
        public=("weft",),
        out=True,
    )

for _overload, _kind in (("Tensor", "Tensor"), ("Scalar", "Scalar")):
    define(
        f"aten::bucketize.{_overload}({_kind} self, Tensor boundaries, *, bool out_int32=False, "
        "bool right=False) -> Tensor",
        "The bucket of each value between sorted boundaries.",
        decompose=lambda self, boundaries, out_int32, right: aten.searchsorted(
            boundaries, self, out_int32=out_int32, right=right
        ),
        public=("weft",),
        out=True,
    )

