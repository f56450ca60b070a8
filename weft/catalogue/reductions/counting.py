"""What values occur, where and how often: isin, mode, bincount, histc, unique_consecutive."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.families import no_formula
from weft.catalogue.reductions.extrema import picked_gradient
from weft.catalogue.reductions.sorting import first_and, stable_order
from weft.catalogue.reductions.sums import reduced_type
from weft.catalogue.samples import F, I, case, draw
from weft.catalogue.shapes.rearranging import run_size, share_of
from weft.ops.batching import along
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.support.errors import DTypeError, IndexBoundsError, NotForDType, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.tensor_type import TensorType, tensor_type

Array = Any

# ---- membership


def _isin(elements: Any, test_elements: Any, assume_unique: bool, invert: bool) -> Any:
    """By binary search among the sorted test elements."""
    for x in (elements, test_elements):
        if x.dtype.is_complex:
            raise DTypeError(f"Unsupported input type encountered for isin(): {x.dtype}")
    count = dm.product(test_elements.dims)
    if shape_env.equal(count, 0):
        return aten.full(elements.dims, invert, dtype=dt.bool_)
    joint = (aten.zeros((0,), dtype=elements.dtype) + aten.zeros((0,), dtype=test_elements.dtype)).dtype
    wanted = aten.to(elements, joint)
    ordered = aten.sort(aten.to(aten.reshape(test_elements, (count,)), joint))[0]
    place = aten.clamp_max(aten.searchsorted(ordered, wanted), count - 1)
    is_member = aten.eq(aten.index(ordered, (place,)), wanted)
    return aten.logical_not(is_member) if invert else is_member


define(
    "aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, "
    "bool invert=False) -> Tensor",
    "Which elements are among the test elements (with invert: which are not).",
    decompose=_isin,
    public=("weft",),
    out=True,
    samples=draw(case(I(3, 4, high=6), I(5, high=6)), case(I(4, high=6), I(2, 2, high=6), invert=True)),
    reference=lambda x, y, assume_unique, invert: np.isin(x, y, invert=invert),
)
define(
    "aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, "
    "bool invert=False) -> Tensor",
    "Which elements equal a number.",
    decompose=lambda elements, test_element, assume_unique, invert: (aten.ne if invert else aten.eq)(
        elements, test_element
    ),
    public=("weft",),
    out=True,
    samples=draw(case(I(3, 4, high=3), 1)),
    reference=lambda x, y, assume_unique, invert: np.isin(x, y, invert=invert),
)
define(
    "aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, "
    "bool invert=False) -> Tensor",
    "Whether a number is among the test elements.",
    decompose=lambda element, test_elements, assume_unique, invert: (
        aten.logical_not(aten.any(aten.eq(test_elements, element))) if invert
        else aten.any(aten.eq(test_elements, element))),
    public=("weft",),
    out=True,
    samples=draw(case(1, I(3, 4, high=6))),
    reference=lambda x, y, assume_unique, invert: np.isin(x, y, invert=invert),
)

# ---- the most frequent element


def _mode_type(self: TensorType, dim: int, keepdim: bool) -> tuple[TensorType, TensorType]:
    if self.dtype is not None and self.dtype.is_complex:
        raise DTypeError(f"mode: complex numbers have no order, got {self.dtype}")
    axis = normalize_dim("mode", dim, self.ndim)
    if self.ndim and self.is_complete:
        shape_env.refuse_equal(
            self.shape[axis], 0,
            lambda: IndexBoundsError(f"mode(): Expected reduction dim {axis} to have non-zero size."),
        )
    values = reduced_type("mode", self, dim, keepdim, self.dtype)
    return values, values.with_dtype(dt.int64)


def _mode(x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The longest run of the sorted elements, the first of several; its last element's place."""
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)
    order = np.moveaxis(stable_order(x, dim, False), dim, -1)
    ordered = np.take_along_axis(np.moveaxis(x, dim, -1), order, -1)
    place = np.arange(ordered.shape[-1])
    starts = np.ones(ordered.shape, np.bool_)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    length = place - np.maximum.accumulate(np.where(starts, place, 0), axis=-1)
    last = np.argmax(length, -1, keepdims=True)
    picked = [np.moveaxis(np.take_along_axis(v, last, -1), -1, dim) for v in (ordered, order)]
    values, index = picked if keepdim else [np.squeeze(v, dim) for v in picked]
    return np.array(values, order="C"), np.array(index, order="C")


def _slow_mode(x: Any, dim: int, keepdim: bool) -> tuple[Any]:
    def of_row(row: Any) -> Any:
        values, counts = np.unique(row, return_counts=True)
        return values[np.argmax(counts)]

    modes = np.apply_along_axis(of_row, dim, x) if x.ndim else x
    return (np.expand_dims(modes, dim) if keepdim and x.ndim else modes,)


define(
    "aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "The most frequent element along dim (the least of several) and where it is last.",
    type=_mode_type,
    kernel=_mode,
    vjp={"self": lambda g, result1, self_dims, dim, keepdim: picked_gradient(g, result1, self_dims, dim, keepdim)},
    batch=along("dim"),
    out=True,
    samples=draw(case(I(3, 7, high=4)), case(I(5, 2, high=3), 0, True), case(F(3, 4))),
    reference=_slow_mode,
)

# ---- counts


_KNOWN_LENGTH = (
    "bincount's length is the largest value plus one, and at least minlength: where all values are below n, count with "
    "weft.zeros(n, dtype=weft.int64).index_add(0, x, weft.ones_like(x)), which has n elements"
)


_NOT_COUNTED = "bincount only supports 1-d non-negative integral inputs."


def _bincount_type(self: TensorType, weights: TensorType | None, minlength: int) -> TensorType:
    if self.dtype is not None and (self.dtype.is_differentiable or self.dtype is dt.bool_):
        raise NotForDType(f'"bincount" not implemented for {self.dtype}; it takes integers')
    if self.dims is not None and self.ndim != 1:
        raise ShapeError(_NOT_COUNTED)
    shape_env.refuse_less(minlength, 0, lambda: ShapeError("minlength should be >= 0"))
    length = run_size(_KNOWN_LENGTH)
    if weights is None:
        return tensor_type(dt.int64, (length,), self.device)
    if weights.dtype is not None and weights.dtype.is_complex:
        raise DTypeError(f"bincount: weights cannot be complex, got {weights.dtype}")
    if (
        self.is_complete and weights.is_complete
        and (weights.ndim != 1 or not shape_env.equal(weights.shape[0], self.shape[0]))
    ):
        raise ShapeError("weights should be 1-d and have the same length as input")
    return tensor_type(dt.float32 if weights.dtype is dt.float32 else dt.float64, (length,), self.device)


def _bins(self: Any, weights: Any, minlength: int) -> Any:
    """One more than the greatest number, or as many as there are to be at least."""
    if shape_env.is_zero(self.dims[0]):
        return aten.full((), minlength, dtype=dt.int64)
    if self.dtype is not dt.int64:
        self = aten._to_copy(self, dtype=dt.int64)
    if not shape_env.is_known(self.dims[0]):
        self = aten.constant_pad_nd(self, (0, 1), -1)  # (the greatest of no numbers)
    return aten.clamp_min(aten.amax(self, (0,)) + 1, minlength)


def _bincount(x: Array, weights: Array | None, minlength: int) -> Array:
    if x.size and x.min() < 0:
        raise ShapeError(_NOT_COUNTED)
    if weights is None:
        return np.bincount(x, minlength=minlength).astype(np.int64)
    return np.bincount(x, weights.astype(np.float64), minlength).astype(
        np.float32 if weights.dtype == np.float32 else np.float64
    )


define(
    "aten::bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
    "How often each integer from 0 on occurs in a vector, or the sum of the weights of its occurrences.",
    type=_bincount_type,
    kernel=_bincount,
    vjp=no_formula("bincount", "weights"),
    effect="raises",
    counted=_bins,
    failure=lambda self, weights, minlength: ShapeError(_NOT_COUNTED),
    samples=draw(case(I(9, high=5)), case(I(6, high=3), F(6), 7)),
    reference=lambda x, weights, minlength: np.bincount(x, weights, minlength),
)


def _histc_type(self: TensorType, bins: int, min: Any, max: Any) -> TensorType:
    if self.dtype is not None and not self.dtype.is_floating_point:
        raise NotForDType(f'"histogram_cpu" not implemented for {self.dtype}; histc takes floats')
    if isinstance(bins, int) and bins <= 0:
        raise ShapeError(f"torch.histogram(): bins must be > 0, but got {bins}")
    if isinstance(min, (int, float)) and isinstance(max, (int, float)) and min > max:
        raise ShapeError("torch.histc: max must be larger than min")
    return tensor_type(self.dtype, (bins,), self.device)


def _histc(x: Array, bins: int, min: float, max: float) -> Array:
    flat = x.reshape(-1).astype(np.float64)
    low, high = float(min), float(max)
    if low == high and flat.size:
        low, high = float(flat.min()), float(flat.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ShapeError(f"torch.histc: range of [{low}, {high}] is not finite")
    return np.histogram(flat, bins, (low, high))[0].astype(x.dtype)


define(
    "aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    "How many elements fall into each of `bins` equal parts of [min, max] (of their own range where min equals max).",
    type=_histc_type,
    kernel=_histc,
    vjp=NOT_DIFFERENTIABLE,
    effect="raises",
    out=True,
    samples=draw(case(F(30), 5), case(F(4, 5), 4, -1.0, 1.5)),
    reference=lambda x, bins, low, high: np.histogram(x, bins, (low, high) if low != high else None)[0].astype(
        np.float64
    ),
)

# ---- runs of equal elements


def _runs(x: Array, dim: int | None) -> tuple[Array, Array, Array]:
    """The first of each run of equal elements (slices along dim), the run of each, and the runs' lengths."""
    rows = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    differs = rows[1:] != rows[:-1]
    starts = np.concatenate([
        np.ones(min(len(rows), 1), np.bool_),
        differs.reshape(len(differs), -1).any(-1) if differs.size else differs.reshape(-1)[:0],
    ])
    if dim is not None and len(starts) != len(rows):  # slices without elements are all equal
        starts = np.arange(len(rows)) == 0
    first = np.flatnonzero(starts)
    kept = rows[starts]
    which = (np.cumsum(starts) - 1).astype(np.int64)
    counts = np.diff(np.append(first, len(rows))).astype(np.int64)
    return (
        (kept, which.reshape(x.shape), counts) if dim is None
        else (np.ascontiguousarray(np.moveaxis(kept, 0, dim)), which, counts)
    )


def _runs_type(self: TensorType, dim: int | None) -> tuple[TensorType, TensorType, TensorType]:
    if dim is None:
        runs_count = share_of(self.dims)
        runs = tensor_type(self.dtype, (runs_count,), self.device)
        return runs, self.with_dtype(dt.int64), tensor_type(dt.int64, (runs_count,), self.device)
    at = normalize_dim("unique_consecutive", dim, self.ndim)
    dims = self.shape or (1,)
    runs_count = share_of((dims[at],))
    counts = tensor_type(dt.int64, (runs_count,), self.device)
    kept = tuple(runs_count if i == at else d for i, d in enumerate(dims))
    return tensor_type(self.dtype, kept, self.device), tensor_type(dt.int64, (dims[at],), self.device), counts


define(
    "aten::_unique_consecutive(Tensor self, int? dim) -> (Tensor, Tensor, Tensor)",
    "The first of each run of equal elements, the run of each element, and the runs' lengths.",
    type=_runs_type,
    kernel=lambda x, dim: _runs(np.atleast_1d(x), dim) if dim is not None else _runs(x, None),
    vjp=no_formula("unique_consecutive", "self"),
    public=(),
    dynamic_output_shape=True,
)


def _unique_consecutive(self: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    return first_and(aten._unique_consecutive(self, dim), return_inverse, return_counts)


define(
    "aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, "
    "int? dim=None) -> Tensor",
    "The first of each run of equal elements (or slices along dim); with return_inverse and return_counts a tuple "
    "that has those too.",
    decompose=_unique_consecutive,
    more=("return_inverse", "return_counts"),
)
