"""Sorting: sort, argsort, topk, kthvalue, median, unique."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.families import no_formula
from weft.catalogue.reductions.extrema import picked_gradient, shared_among_ties
from weft.catalogue.reductions.sums import reduced_type
from weft.catalogue.shapes.rearranging import share_of
from weft.ops.batching import along
from weft.ops.layout import Follows, order_like
from weft.ops.op import NOT_DIFFERENTIABLE, Out, define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.ops.tangents import picked
from weft.support.errors import DTypeError, IndexBoundsError, StateError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any
Dims = tuple[Dim, ...]


def stable_order(x: Array, dim: int, descending: bool) -> Array:
    """Indices that sort `x` along `dim`; equal elements stay in order; NaN counts as the greatest."""
    if x.dtype.kind == "V":  # bfloat16 sorts as the float32 that it is
        x = x.astype(np.float32)
    if not descending:
        return np.argsort(x, axis=dim, kind="stable").astype(np.int64, copy=False)
    size = x.shape[dim]
    return size - 1 - np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim).astype(np.int64)


def _sorted(x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)
    order = stable_order(x, dim, descending)
    return np.take_along_axis(x, order, dim), order


def _pair(self: TensorType, dim: int, *rest: Any) -> tuple[TensorType, TensorType]:
    if self.dtype is not None and self.dtype.is_complex:
        raise DTypeError(f"sort: complex numbers have no order, got {self.dtype}")
    if self.dims is not None:
        normalize_dim("sort", dim, self.ndim)
    return self, self.with_dtype(dt.int64)


def _put_back(g: Any, index: Any, self_dims: Dims, dim: int) -> Any:
    return picked_gradient(g, index, self_dims, dim, True)


_BOTH_LIKE_SELF = Follows(lambda self, *rest: (order_like(self),) * 2)

sort_stable = define(
    "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, "
    "Tensor indices)",
    "The elements in order along `dim`, and where each came from. The sort is always stable; "
    "NaN counts as the greatest.",
    type=lambda self, stable, dim, descending: _pair(self, dim),
    node="SortBackward1",
    kernel=lambda x, stable, dim, descending: _sorted(x, dim, descending),
    vjp={"self": lambda g, result1, self_dims, dim: _put_back(g, result1, self_dims, dim)},
    batch=along("dim"), jvp=picked,
    lies=_BOTH_LIKE_SELF,
    out=True,
    reference=lambda x, stable, dim, descending: (
        np.sort(x, dim) if not descending else np.flip(np.sort(x, dim), dim),
    ),
)

sort = define(
    "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    "The elements in order along `dim`, and where each came from. The sort is always stable; "
    "NaN counts as the greatest.",
    type=_pair,
    kernel=_sorted,
    node="SortBackward0",
    vjp={"self": lambda g, result1, self_dims, dim: _put_back(g, result1, self_dims, dim)},
    batch=along("dim"), jvp=picked,
    lies=_BOTH_LIKE_SELF,
    out=True,
    reference=lambda x, dim, descending: (np.sort(x, dim) if not descending else np.flip(np.sort(x, dim), dim),),
)

msort = define(
    "aten::msort(Tensor self) -> Tensor",
    "The elements in order along the first dim.",
    type=lambda self: _pair(self, 0)[0],
    decompose=lambda self: aten.sort(self, 0)[0],
    out=True,
    reference=lambda x: np.sort(x, 0),
)

argsort = define(
    "aten::argsort(Tensor self, int dim=-1, bool descending=False, bool stable=False) -> Tensor",
    "The indices that sort along `dim`; always stable.",
    type=lambda self, dim, descending, stable: _pair(self, dim)[1],
    decompose=lambda self, dim, descending, stable: aten.sort(self, dim, descending)[1],
    out=True,
    vjp=NOT_DIFFERENTIABLE,
    reference=lambda x, dim, descending, stable: (
        np.argsort(
            -x if descending and x.dtype.kind != "b" else x ^ descending if descending else x, dim, kind="stable"
        )
        if x.ndim else np.int64(0)),
)


# ---- the first k
def _topk_type(self: TensorType, k: int, dim: int, *rest: Any) -> tuple[TensorType, TensorType]:
    axis = normalize_dim("topk", dim, self.ndim)
    size = self.shape[axis] if self.ndim else 1
    for low, high in ((k, 0), (size, k)):
        shape_env.refuse_less(low, high, lambda: StateError("selected index k out of range"))
    dims = (*self.shape[:axis], k, *self.shape[axis + 1 :]) if self.ndim else ()
    return tensor_type(self.dtype, dims, self.device), tensor_type(dt.int64, dims, self.device)


def _topk(x: Array, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)
    order = np.take(stable_order(x, dim, largest), range(k), dim)
    return np.take_along_axis(x, order, dim), order


topk = define(
    "aten::topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, "
    "Tensor indices)",
    "The k greatest (or least) elements along `dim` and their indices, always in order.",
    type=_topk_type,
    kernel=_topk,
    vjp={"self": lambda g, result1, self_dims, dim: _put_back(g, result1, self_dims, dim)},
    batch=along("dim"), jvp=picked,
    padding=lambda self, k, dim, largest, is_sorted: "lowest" if largest else "highest",
    out=True,
    reference=lambda x, k, dim, largest, sorted: (
        np.take(np.flip(np.sort(x, dim), dim) if largest else np.sort(x, dim), range(k), dim),),
)


def _picked_type(self: TensorType, dim: int, keepdim: bool) -> tuple[TensorType, TensorType]:
    axis = normalize_dim("median", dim, self.ndim)
    if self.ndim and self.is_complete:
        shape_env.refuse_equal(self.shape[axis], 0, lambda: IndexBoundsError(
            f"median(): Expected reduction dim {axis} to have non-zero size."))
    values = reduced_type("median", self, dim, keepdim, self.dtype)
    return values, values.with_dtype(dt.int64)


def _kth_type(self: TensorType, k: int, dim: int, keepdim: bool) -> tuple[TensorType, TensorType]:
    axis = normalize_dim("kthvalue", dim, self.ndim)
    size = self.shape[axis] if self.ndim else 1
    for low, high in ((k, 1), (size, k)):
        shape_env.refuse_less(
            low, high, lambda: StateError(f"kthvalue(): selected number k out of range for dimension {axis}")
        )
    return _picked_type(self, dim, keepdim)


def _pick_from_order(x: Array, dim: int, keepdim: bool, place: Array) -> tuple[Array, Array]:
    """The element at `place` (an index per row, kept dim) of the sorted order."""
    order = stable_order(x, dim, False)
    index = np.take_along_axis(order, place, dim)
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (np.squeeze(values, dim), np.squeeze(index, dim))


def _kth(x: Array, k: int, dim: int, keepdim: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)
    rows = x.take(range(1), dim).shape
    return _pick_from_order(x, dim, keepdim, np.full(rows, k - 1))


kthvalue = define(
    "aten::kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "The k-th least element along `dim` (k counts from 1) and its index.",
    type=_kth_type,
    kernel=_kth,
    vjp={"self": lambda g, result1, self_dims, dim, keepdim: picked_gradient(g, result1, self_dims, dim, keepdim)},
    batch=along("dim"), jvp=picked,
    out=Out(is_apart=True),
    reference=lambda x, k, dim, keepdim: (
        np.sort(x, dim).take([k - 1], dim) if keepdim else np.sort(x, dim).take(k - 1, dim),),
)


def _median(x: Array, dim: int, keepdim: bool, skip_nan: bool) -> tuple[Array, Array]:
    """The lower of the two middle elements; with NaN among them NaN, unless NaN is skipped."""
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)
    nan = np.sum(x != x, axis=dim, keepdims=True)
    count = x.shape[dim] - nan
    middle = (count - 1) // 2 if skip_nan else np.where(nan > 0, x.shape[dim] - nan, (x.shape[dim] - 1) // 2)
    return _pick_from_order(x, dim, keepdim, np.maximum(middle, 0))


def _whole_median_type(self: TensorType) -> TensorType:
    if self.is_complete and self.dtype is not None and not self.dtype.is_floating_point:
        shape_env.refuse_equal(
            dm.product(self.shape), 0, lambda: StateError(f"median: an empty tensor of {self.dtype} has no median")
        )
    return reduced_type("median", self, None, False, self.dtype)


def _whole_median(self: Any, name: str) -> Any:
    size, flat = dm.product(self.dims), aten.reshape(self, (-1,))
    if shape_env.is_zero(size):
        return aten.full((), float("nan"), dtype=self.dtype)
    if shape_env.is_known(size) or not self.dtype.is_floating_point:
        return getattr(aten, name)(flat, 0)[0]
    nan = aten.full((), float("nan"), dtype=self.dtype)  # the median of nothing
    middle = aten.nanmedian(aten.cat((flat, aten.reshape(nan, (1,)))), 0)[0]
    return middle if name == "nanmedian" else aten.where(aten.any(aten.isnan(flat)), nan, middle)


for _name, _skip in (("median", False), ("nanmedian", True)):
    define(
        f"aten::{_name}(Tensor self) -> Tensor",
        "The lower of the two middle elements" + (", NaN left out." if _skip else "."),
        type=_whole_median_type,
        decompose=lambda self, name=_name: _whole_median(self, name),
        vjp={"self": lambda g, self, result, self_dims: shared_among_ties(g, self, result, self_dims, None, False)},
        reference=lambda x: np.sort(x, None)[(x.size - 1) // 2],
    )
    define(
        f"aten::{_name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        "The lower of the two middle elements along `dim`, and its index" + (", NaN left out." if _skip else "."),
        type=_picked_type,
        kernel=lambda x, dim, keepdim, skip=_skip: _median(x, dim, keepdim, skip),
        vjp={"self": lambda g, result1, self_dims, dim, keepdim: picked_gradient(g, result1, self_dims, dim, keepdim)},
        batch=along("dim"), jvp=picked,
        out=True,
        reference=lambda x, dim, keepdim: (
            np.take(np.sort(x, dim), [(x.shape[dim] - 1) // 2] if keepdim else (x.shape[dim] - 1) // 2, dim),
        ),
    )


# ---- distinct elements
def _unique_flat(x: Array, sorted: bool, return_inverse: bool, return_counts: bool) -> tuple[Array, Array, Array]:
    options: dict[str, bool] = {"return_inverse": True, "return_counts": True, "equal_nan": False}
    if x.dtype.kind == "f" and np.isnan(x).any():  # each is one of them: asked for indices, NumPy keeps their order
        options["return_index"] = True
    values, *_, inverse, counts = np.unique(x.reshape(-1), **options)  # type: ignore[call-overload]
    return values, inverse.reshape(x.shape).astype(np.int64), counts.astype(np.int64)


def _unique_along(
    x: Array, dim: int, sorted: bool, return_inverse: bool, return_counts: bool
) -> tuple[Array, Array, Array]:
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    return values, inverse.reshape(-1).astype(np.int64), counts.astype(np.int64)


def _unique2_type(self: TensorType, *flags: bool) -> tuple[TensorType, TensorType, TensorType]:
    """The distinct elements: how many there are is known only when the operator has run."""
    dims = (share_of(self.dims),)
    return tensor_type(self.dtype, dims, self.device), self.with_dtype(dt.int64), tensor_type(
        dt.int64, dims, self.device
    )


def _unique_dim_type(self: TensorType, dim: int, *flags: bool) -> tuple[TensorType, TensorType, TensorType]:
    if not self.ndim:
        raise StateError("unique_dim: a 0-dim tensor has no slices")
    axis = normalize_dim("unique_dim", dim, self.ndim)
    count = share_of((self.shape[axis],))
    kept = tensor_type(self.dtype, tuple(count if i == axis else d for i, d in enumerate(self.shape)), self.device)
    return kept, tensor_type(dt.int64, (self.shape[axis],), self.device), tensor_type(dt.int64, (count,), self.device)


define(
    "aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
    "Tensor, Tensor)",
    "The distinct elements in order, the index among them of each element, and how often each occurs.",
    type=_unique2_type,
    kernel=_unique_flat,
    vjp=no_formula("_unique2", "self"),
    public=(),
    dynamic_output_shape=True,
)
define(
    "aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False)"
    " -> (Tensor, Tensor, Tensor)",
    "The distinct slices along `dim` in order, the index among them of each slice, and how often each occurs.",
    type=_unique_dim_type,
    kernel=_unique_along,
    vjp=no_formula("unique_dim", "self"),
    public=(),
    dynamic_output_shape=True,
)


def _unique(self: Any, sorted: bool, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    results = (aten._unique2(self, sorted, return_inverse, return_counts) if dim is None
             else aten.unique_dim(self, dim, sorted, return_inverse, return_counts))
    return first_and(results, return_inverse, return_counts)


def first_and(results: tuple[Any, ...], *wanted: bool) -> Any:
    """The first result, with those of the others that are wanted in a tuple; alone if none is."""
    asked = [results[0], *(part for part, is_wanted in zip(results[1:], wanted, strict=True) if is_wanted)]
    return asked[0] if len(asked) == 1 else tuple(asked)


define(
    "aten::unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, "
    "int? dim=None) -> Tensor",
    "The distinct elements (or slices along `dim`) in order; with return_inverse and return_counts a tuple that "
    "has those too.",
    decompose=_unique,
    more=("return_inverse", "return_counts"),
)
