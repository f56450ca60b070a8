"""Writing where an index says: slices along a dim (index_add, index_copy, index_fill), places of an advanced
indexing (index_put)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.families import is_one
from weft.catalogue.indexing.checks import (
    check_bounds,
    check_index_dtype,
    expand_values,
    indexed_dims,
    numpy_index,
)
from weft.catalogue.indexing.embedding import sums_of_places
from weft.catalogue.indexing.reads import BatchedIndex
from weft.catalogue.samples import F, I, case, draw
from weft.catalogue.shapes.slicing import along
from weft.ops.batching import Flags, everywhere, shifted, whole
from weft.ops.layout import LIKE_SELF
from weft.ops.op import Op, define, writing
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import check_fits, dims_text, normalize_dim
from weft.ops.scalar_numpy import NUMPY
from weft.ops.tangents import linear
from weft.support.errors import DTypeError, IndexBoundsError, OutOfBounds, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType

Array = Any

# ---- whole slices along one dim


def _index_add_type(self: TensorType, dim: int, index: TensorType, source: TensorType, *rest: Any) -> TensorType:
    check_index_dtype("index_add", index)
    if self.dtype is not None and source.dtype is not None and self.dtype is not source.dtype:
        raise DTypeError(
            f"index_add_(): self ({self.dtype}) and source ({source.dtype}) must have the same scalar type"
        )
    if not (self.is_complete and index.is_complete and source.is_complete):
        return self
    at = normalize_dim("index_add", dim, self.ndim)
    if index.ndim > 1:
        raise OutOfBounds(f"index_add_(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if self.ndim == 0:
        return self
    if self.ndim != source.ndim or any(
        i != at and not shape_env.equal(a, b) for i, (a, b) in enumerate(zip(self.shape, source.shape, strict=False))
    ):
        raise ShapeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {dims_text(self.shape)} source.shape = {dims_text(source.shape)}"
        )
    count = index.shape[0] if index.shape else 1
    if not shape_env.equal(count, source.shape[at]):
        raise ShapeError(
            f"index_add_(): Number of indices ({count}) should be equal to source.size(dim) ({source.shape[at]})"
        )
    return self


def _index_add(x: Array, dim: int, index: Array, source: Array, alpha: Any = 1) -> None:
    at = dim % max(x.ndim, 1)
    check_bounds(index, x.shape[at] if x.ndim else 1, at, "index out of range in self")
    if x.ndim == 0:
        x[...] = x + np.asarray(alpha).astype(x.dtype) * source.sum(dtype=x.dtype)
        return
    # a negative number wraps around in unsigned integers
    rows = (
        np.moveaxis(source, at, 0) if is_one(alpha)
        else np.moveaxis(source, at, 0) * np.asarray(alpha).astype(source.dtype)
    )
    places, sums = sums_of_places(rows, index.reshape(-1))
    where, added = along(at, places), np.moveaxis(sums, 0, at)
    x[where] = x[where] | added.astype(x.dtype) if x.dtype == np.bool_ else x[where] + added


def _rows_batch(op: Op, size: Dim, flags: Flags, self: Any, dim: int, index: Any, *rest: Any) -> Any:
    """index_add, index_copy, index_fill: the examples' rows in one tall tensor, the indices moved along."""
    rank = self.ndim - bool(flags[0])
    source_is_tensor = bool(rest) and hasattr(type(rest[0]), "__weft_route__")
    x, places = everywhere(size, (flags[0], flags[2]), (self, index))
    listed = list(rest)
    if source_is_tensor:
        listed[0] = rest[0] if flags[3] else whole(rest[0], size)
    if rank == 0:
        x = aten.unsqueeze(x, 1)
    if places.ndim == 1:
        places = aten.unsqueeze(places, 1)
    if source_is_tensor and listed[0].ndim < x.ndim:
        listed[0] = aten.unsqueeze(listed[0], shifted(dim, rank))
    at = shifted(dim, rank)
    tall = aten.movedim(x, at, 1)
    rows = tall.dims[1]
    wrapped = aten.where(aten.lt(places, 0), places + rows, places)
    moved = wrapped + aten.reshape(aten.mul(aten._iota(size), rows), (size, 1))
    if source_is_tensor:
        listed[0] = aten.flatten(aten.movedim(listed[0], at, 1), 0, 1)
    out = call(op, (aten.flatten(tall, 0, 1), 0, aten.flatten(moved), *listed))
    out = aten.movedim(aten.reshape(out, tall.dims), 1, at)
    return aten.squeeze(out, 1) if rank == 0 else out


index_add = define(
    "aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    "A copy of self with alpha * source added to the slices along dim that index lists.",
    type=_index_add_type,
    **writing(_index_add),
    vjp={
        "self": lambda g: g,
        "source": lambda g, source_dims, dim, index, alpha: _selected(g, source_dims, dim, index)
        if is_one(alpha)
        else _selected(g, source_dims, dim, index) * alpha,
    },
    batch=_rows_batch, jvp=linear,
    effect="raises",
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4), 0, I(5, high=3), F(5, 4)), case(F(3, 4), -1, I(2, high=4), F(3, 2), alpha=2)),
)


def _selected(g: Any, source_dims: Any, dim: int, index: Any) -> Any:
    return (
        aten.reshape(aten.index_select(g, dim, index), ()) if not source_dims
        else aten.index_select(g, dim, index)
    )


def _index_copy_type(self: TensorType, dim: int, index: TensorType, source: TensorType) -> TensorType:
    if self.is_complete and source.is_complete and self.ndim == 1 and source.ndim == 0:
        source = source.with_dims((1,))  # a number is a slice of a vector
    return _index_add_type(self, dim, index, source)


def _index_copy(x: Array, dim: int, index: Array, source: Array) -> None:
    at = dim % max(x.ndim, 1)
    check_bounds(index, x.shape[at] if x.ndim else 1, at, "index_copy_(): index out of range in self")
    if x.ndim == 0:
        x[...] = source.reshape(())
    else:
        x[along(at, index.reshape(-1))] = source


define(
    "aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    "A copy of self in which the slices along dim that index lists are those of source.",
    precision="widest",
    type=_index_copy_type,
    **writing(_index_copy),
    vjp={
        "self": lambda g, dim, index: aten.index_fill(g, dim, index, 0),
        "source": lambda g, source_dims, dim, index: _selected(g, source_dims, dim, index),
    },
    batch=_rows_batch, jvp=linear,
    effect="raises",
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4), 1, np.array([2, 0]), F(3, 2))),
)


def _index_fill(x: Array, dim: int, index: Array, value: Any) -> None:
    at = dim % max(x.ndim, 1)
    check_bounds(index, x.shape[at] if x.ndim else 1, at)
    x[along(at, index.reshape(-1)) if x.ndim else ...] = NUMPY.const(value, dt.from_numpy(x.dtype))


def _index_fill_type(self: TensorType, dim: int, index: TensorType, value: Any) -> TensorType:
    if index.dtype is not None and index.dtype is not dt.int64:
        raise OutOfBounds("index_fill_(): Expected dtype int64 for index.")
    check_fits(value, self.dtype)
    if self.dims is not None:
        normalize_dim("index_fill", dim, self.ndim)
    return self


def _fill_with(self: Any, dim: int, index: Any, value: Any) -> Any:
    if value.ndim:
        raise ShapeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    filled = aten.index_fill(aten.zeros(self.dims, dtype=dt.bool_), dim, index, True)
    return aten.where(filled, aten.to(value, self.dtype), self)


define(
    "aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    "A copy of self with a 0-dim tensor's value in the slices along dim that index lists.",
    decompose=_fill_with,
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4), 0, np.array([2, 0]), F())),
)
define(
    "aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    "A copy of self with a number in the slices along dim that index lists.",
    type=_index_fill_type,
    **writing(_index_fill),
    vjp={"self": lambda g, dim, index: aten.index_fill(g, dim, index, 0)},
    batch=_rows_batch,
    lies=LIKE_SELF,
    effect="raises",
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4), 0, I(2, high=3), 1.5)),
)

# ---- advanced indexing


def _index_put_type(
    self: TensorType, indices: Sequence[TensorType | None], values: TensorType, accumulate: bool
) -> TensorType:
    if self.dtype is not None and values.dtype is not None and self.dtype is not values.dtype:
        raise DTypeError(
            f"Index put requires the source and destination dtypes match, got {self.dtype} for the destination and "
            f"{values.dtype} for the source."
        )
    if self.is_complete and all(i is None or i.is_complete for i in indices):
        indexed_dims(self, indices, lambda dims: None)
    return self


def _index_put(x: Array, indices: Sequence[Array | None], values: Array, accumulate: bool) -> None:
    if not accumulate and _is_put(x, numpy_index(x, indices, is_checked=False), values):
        return
    where = numpy_index(x, indices)
    values = expand_values(values, _shape_of(x, where))
    if not accumulate:
        x[where] = values
    elif x.dtype == np.bool_:
        np.logical_or.at(x, where, values)
    else:
        _accumulate(x, where, values)


def _is_put(x: Array, where: tuple[Any, ...], values: Array) -> bool:
    """Whether the values were put there by NumPy, which looks at places and sizes before it writes, but drops leading
    dims of values; what is wrong with them, the long way says."""
    arrays = [w.ndim for w in where if type(w) is np.ndarray]
    if values.ndim and (0 in arrays or values.ndim > x.ndim - len(arrays) + max(arrays, default=0)):
        return False
    try:
        x[where] = values
    except (IndexError, ValueError):
        return False
    return True


def _shape_of(x: Array, where: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of x[where], without picking: x is stood in for by one byte that is repeated."""
    shape: tuple[int, ...] = np.broadcast_to(np.int8(0), x.shape)[where].shape
    return shape


def _accumulate(out: Array, where: tuple[Any, ...], values: Array) -> None:
    """out[where] += values with repeats: by rows where leading dims are indexed, else element by element."""
    tensors = [w for w in where if isinstance(w, np.ndarray) and w.dtype != np.bool_]
    if len(tensors) != len(where) or not tensors or out.size == 0:
        np.add.at(out, where, values)
        return
    joint = np.broadcast_arrays(*tensors)
    lead = out.shape[: len(tensors)]
    wrapped = tuple(np.where(j < 0, j + n, j) for j, n in zip(joint, lead, strict=True))
    flat = np.ravel_multi_index(wrapped, lead).reshape(-1)
    rows = values.reshape(flat.size, *out.shape[len(tensors) :])
    places, sums = sums_of_places(rows, flat)
    out[np.unravel_index(places, lead)] += sums


def _unlike_picks(*types: Any) -> ShapeError:
    """The error of values that are not as many as the places where a mask holds."""
    return ShapeError("shape mismatch: the values are not as many as the {element} places where the mask holds")


def _index_put_grad_self(g: Any, indices: Any, accumulate: bool) -> Any:
    return g if accumulate else aten.index_put(g, indices, aten.new_zeros(g, ()))


def _index_put_grad_values(g: Any, values_dims: Any, indices: Any) -> Any:
    tensors = [(at, index) for at, index in enumerate(indices) if index is not None]
    if len(tensors) == 1 and tensors[0][1].dtype is dt.bool_ and tensors[0][1].ndim:
        return _masked_grad_values(g, values_dims, *tensors[0])
    return aten.sum_to_size(aten.index(g, indices), values_dims)


def _masked_grad_values(g: Any, values_dims: Any, at: int, mask: Any) -> Any:
    """What a mask over the dims of g from `at` on picks of g, of the values' size; where one row was put in many
    places, its sum, for which nothing needs to be picked."""
    after = range(at + mask.ndim, g.ndim)
    moved = aten.permute(g, (*range(at, at + mask.ndim), *range(at), *after)) if at else g
    holds = aten.reshape(mask, (*mask.dims, *(1,) * (at + len(after))))
    rows = values_dims[-len(after) - 1] if len(values_dims) > len(after) else 1
    if not shape_env.is_known(rows):
        picked = aten.index(g, (*(None,) * at, mask))
        if picked.dims[at] == rows:  # the values are what this very mask has picked
            return aten.sum_to_size(picked, values_dims)
    row = moved.dims[mask.ndim :]
    is_one = shape_env.is_less(rows, 2) and not shape_env.is_zero(rows)
    grads = _sum_of_places(moved, holds, row) if is_one else _rows_of_places(moved, holds, rows, row)
    back = aten.permute(grads, (*range(1, at + 1), 0, *range(at + 1, grads.ndim))) if at else grads
    out = aten.sum_to_size(back, values_dims)
    return aten.reshape(out, values_dims) if is_one else out


def _rows_of_places(g: Any, holds: Any, rows: Dim, row: Sequence[Dim]) -> Any:
    """[rows, row...]: the rows of g where the mask holds; [1, row...], their sum, where one row stands for all."""
    if shape_env.is_known(rows):
        return aten.masked_scatter_backward(g, aten.expand(holds, g.dims), (rows, *row))
    # one row, or as many as there are places: the program finds out
    most = dm.product(g.dims[: g.ndim - len(row)])
    picked = aten.masked_scatter_backward(g, aten.expand(holds, g.dims), (most, *row))
    picked = aten.split_with_sizes(picked, (rows, most - rows), 0)[0]
    is_one = aten.eq(aten.new_full(g, (), rows, dtype=dt.int64), 1)
    return aten.where(is_one, _sum_of_places(g, holds, row), picked)


def _sum_of_places(g: Any, holds: Any, row: Sequence[Dim]) -> Any:
    """[1, row...]: the sum of the rows of g where the mask holds."""
    kept = aten.sum(aten.where(holds, g, 0), tuple(range(g.ndim - len(row))), True)
    return aten.reshape(kept, (1, *row))


def _index_put_batch(op: Op, size: Dim, flags: Flags, self: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    x = self if flags[0] else whole(self, size)
    plan = BatchedIndex(size, x.ndim - 1, indices, flags[1])
    inner = aten.permute(x, plan.order)
    if values.ndim - bool(flags[2]):
        shape = plan.to_result(aten.index(inner, plan.indices)).dims
        missing = len(shape) - 1 - (values.ndim - bool(flags[2]))
        raised = aten.reshape(
            values, (*((size,) if flags[2] else ()), *(1,) * max(missing, 0), *values.dims[int(flags[2]) :])
        )
        placed = plan.from_result(aten.expand(raised if flags[2] else aten.unsqueeze(raised, 0), shape))
    else:
        placed = aten.reshape(values, (size, *(1,) * (plan.rank + len(plan.rest)))) if flags[2] else values
    out = aten.index_put(inner, plan.indices, placed, accumulate)
    back = tuple(plan.order.index(i) for i in range(len(plan.order)))
    return aten.permute(out, back)


index_put = define(
    "aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    "A copy of self with values at the places of an advanced indexing (added there, if accumulating).",
    type=_index_put_type,
    **writing(_index_put),
    vjp={"self": _index_put_grad_self, "values": _index_put_grad_values},
    batch=_index_put_batch,
    lies=LIKE_SELF,
    effect="raises",
    failure=_unlike_picks,
    inplace=True,
    out=True,
    samples=draw(
        case(F(3, 4), (I(5, high=3), None), F(5, 4), True), case(F(3, 4), (np.array([2, 0]), np.array([1, 1])), F(2)),
        case(F(3, 4), (None, I(6, high=4)), F(6), True),
    ),
)


def _flat(x: Any) -> Any:
    return aten.reshape(x, (-1,))


def _put(self: Any, index: Any, source: Any, accumulate: bool) -> Any:
    if index.dtype is not dt.int64:
        raise DTypeError(f"put_(): Expected a long tensor for index, but got {index.dtype}")
    if self.dtype is not source.dtype:
        raise DTypeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {self.dtype} and "
            f"source.dtype = {source.dtype}"
        )
    if not shape_env.equal(dm.product(source.dims), dm.product(index.dims)):
        raise IndexBoundsError(
            f"put_(): Expected source and index to have the same number of elements, but got {source.dims} and "
            f"{index.dims}"
        )
    return aten.reshape(aten.index_put(_flat(self), (_flat(index),), _flat(source), accumulate), self.dims)


define(
    "aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    "A copy of self with the source's elements at these places of the flattened tensor (added there, if accumulating).",
    decompose=_put,
    lies=LIKE_SELF,
    inplace=True,
    samples=draw(case(F(3, 4), np.array([7, 0]), F(2)), case(F(3, 4), I(5, high=12), F(5), True)),
)


def _index_reduce(self: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ShapeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}")
    if index.ndim > 1:
        raise ShapeError(f"index_reduce(): Index is supposed to be a vector, but got {index.ndim} dims")
    if not self.ndim:
        return _index_reduce(_flat(self), dim, _flat(index), _flat(source), reduce, include_self).reshape(())
    at = normalize_dim("index_reduce", dim, self.ndim)
    lined = aten.reshape(index, tuple(-1 if i == at else 1 for i in range(self.ndim)))
    return aten.scatter_reduce(self, at, aten.expand(lined, source.dims), source, reduce, include_self=include_self)


define(
    "aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
    "bool include_self=True) -> Tensor",
    "A copy of self whose slices along dim that index lists are combined with those of source: prod, mean, "
    "amax or amin.",
    decompose=_index_reduce,
    inplace=True,
    out=True,
    samples=draw(
        case(F(3, 4), 0, I(5, high=3), F(5, 4), "amax"),
        case(F(3, 4), 1, I(2, high=4), F(3, 2), "mean", include_self=False),
    ),
)


def _fill_diagonal(self: Any, fill_value: Any, wrap: bool) -> Any:
    if self.ndim < 2:
        raise ShapeError("dimensions must larger than 1")
    rows, columns = self.dims[0], self.dims[1]
    if self.ndim > 2 and any(not shape_env.equal(d, rows) for d in self.dims):
        raise ShapeError("all dimensions of input must be of equal length")
    place = aten._iota(dm.product(self.dims))
    step: Any = 1
    for i in range(1, self.ndim):
        step = step + dm.product(self.dims[i:])
    chosen = aten.eq(aten.remainder(place, step), 0)
    if not wrap and self.ndim == 2:
        chosen = aten.logical_and(chosen, aten.lt(place, columns * columns))
    return aten.masked_fill(self, aten.reshape(chosen, self.dims), fill_value)


define(
    "aten::fill_diagonal(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor",
    "A copy of self with a number on the main diagonal; `wrap` starts it again below the square part of a tall matrix.",
    decompose=_fill_diagonal,
    inplace=True,
    public=("Tensor",),
    samples=draw(case(F(3, 4), 1.5), case(F(7, 3), 2.0, True), case(F(3, 3, 3), 0.5)),
    reference=lambda x, value, wrap: _filled_diagonal(x, value, wrap),
)


def _filled_diagonal(x: Array, value: Any, wrap: bool) -> Array:
    """An oracle for fill_diagonal."""
    out = x.copy()
    np.fill_diagonal(out, value, wrap)
    return out
