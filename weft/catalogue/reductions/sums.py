"""Reductions: sums, products, means, questions about all elements, logsumexp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.catalogue.families import conjugate
from weft.ops.batching import over
from weft.ops.op import NOT_DIFFERENTIABLE, NodeBy, Op, Out, Reduce, define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dims, reduced_dims
from weft.ops.tangents import linear
from weft.support.errors import DTypeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

Axes = Sequence[int] | int | None


def reduced_type(name: str, self: TensorType, dim: Axes, keepdim: bool, dtype: DType | None) -> TensorType:
    """The type of a reduction over `dim` with this result dtype."""
    if not self.is_complete:
        return tensor_type(dtype, None)
    axes = normalize_dims(name, dim, self.ndim)
    return tensor_type(dtype, reduced_dims(self.shape, axes, keepdim), self.device)


def with_reduced(x: Any, dims: tuple[Dim, ...], dim: Axes, keepdim: bool) -> Any:
    """The result (or cotangent) of a reduction with its reduced dims put back as size 1."""
    if keepdim or not dims:
        return x
    for axis in sorted(normalize_dims("sum", dim, len(dims))):
        x = aten.unsqueeze(x, axis)
    return x


def reduced_count(dims: tuple[Dim, ...], dim: Axes) -> Dim:
    """How many elements each result of a reduction is made of."""
    return dm.product(dims[axis] for axis in normalize_dims("sum", dim, len(dims)) if dims)


def numpy_axes(x: Any, dim: Axes) -> tuple[int, ...] | None:
    """`dim` as NumPy takes it (an oracle's helper)."""
    if dim is None or x.ndim == 0 or (not isinstance(dim, int) and len(dim) == 0):
        return None
    return (dim,) if isinstance(dim, int) else tuple(dim)


# ---- sums
def _sum_type(self: TensorType, dim: Axes, keepdim: bool, dtype: DType | None) -> TensorType:
    if dtype is None and self.dtype is not None:
        dtype = self.dtype if self.dtype.is_differentiable else dt.int64
    return reduced_type("sum", self, dim, keepdim, dtype)


sum_ = define(
    "aten::sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "Sum over `dim` (all dims when None). Integers and bool sum as int64.",
    node=NodeBy("dim", "SumBackward0", "SumBackward1"),
    type=_sum_type,
    reduce=Reduce("sum"),
    vjp={"self": lambda g, self_dims, dim, keepdim: aten.expand(with_reduced(g, self_dims, dim, keepdim), self_dims)},
    jvp=linear,
    out=Out("computed"),
    reference=lambda x, dim, keepdim, dtype: np.sum(
        x, axis=numpy_axes(x, dim), keepdims=keepdim, dtype=None if dtype is None else dtype.numpy),
)

nansum = define(
    "aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "Sum over `dim` with NaN counted as 0.",
    type=_sum_type,
    decompose=lambda self, dim, keepdim, dtype: aten.sum(
        aten.where(aten.isnan(self), 0, self), dim, keepdim, dtype=dtype
    ),
    vjp={"self": lambda g, self, dim, keepdim: aten.where(
        aten.isnan(self), 0, aten.expand(with_reduced(g, self.dims, dim, keepdim), self.dims)
    )},
    out=Out("computed"),
    reference=lambda x, dim, keepdim, dtype: np.nansum(x, axis=numpy_axes(x, dim), keepdims=keepdim),
)


def _mean_type(self: TensorType, dim: Axes, keepdim: bool, dtype: DType | None) -> TensorType:
    compute_dtype = dtype or self.dtype
    if compute_dtype is not None and not compute_dtype.is_differentiable:
        which = "Input" if dtype is None else "Optional"
        raise DTypeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point or complex dtype. "
            f"Got: {compute_dtype}")
    return reduced_type("mean", self, dim, keepdim, compute_dtype)


def _mean(self: Any, dim: Axes, keepdim: bool, dtype: DType | None) -> Any:
    """Half precisions are summed and divided in float32 and rounded once."""
    target: DType = dtype or self.dtype
    total = aten.sum(self, dim, keepdim, dtype=dt.compute_dtype(target))
    average = aten.div(total, reduced_count(self.dims, dim))
    return average if dt.compute_dtype(target) is target else aten._to_copy(average, dtype=target)


mean = define(
    "aten::mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "Mean over `dim` (all dims when None), of floats.",
    node=NodeBy("dim", "MeanBackward0", "MeanBackward1"),
    type=_mean_type,
    decompose=_mean,
    vjp={"self": lambda g, self_dims, dim, keepdim: aten.div(
        aten.expand(with_reduced(g, self_dims, dim, keepdim), self_dims), reduced_count(self_dims, dim))},
    batch=over("dim"), jvp=linear,
    out=Out("castable"),
    reference=lambda x, dim, keepdim, dtype: np.mean(x, axis=numpy_axes(x, dim), keepdims=keepdim),
)

nanmean = define(
    "aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "Mean over `dim` of the elements that are not NaN.",
    type=_mean_type,
    decompose=lambda self, dim, keepdim, dtype: aten.nansum(self, dim, keepdim, dtype=dtype) / aten.sum(
        aten.logical_not(aten.isnan(self)), dim, keepdim),
    out=Out("castable"),
    reference=lambda x, dim, keepdim, dtype: np.nanmean(x, axis=numpy_axes(x, dim), keepdims=keepdim),
)


# ---- products
def _prod_type(self: TensorType, dim: int | None, keepdim: bool, dtype: DType | None) -> TensorType:
    if dtype is None and self.dtype is not None:
        dtype = self.dtype if self.dtype.is_differentiable else dt.int64
    return reduced_type("prod", self, dim, keepdim, dtype)


def _product_of_others(x: Any, dim: int) -> Any:
    """For each element the product of all others along `dim`: right also where elements are 0,
    and differentiable again."""
    before = aten._exclusive_cumprod(x, dim)
    after = aten.flip(aten._exclusive_cumprod(aten.flip(x, (dim,)), dim), (dim,))
    return before * after


def _prod_gradient(g: Any, self: Any, self_dims: tuple[Dim, ...], dim: int | None, keepdim: bool) -> Any:
    if not self_dims:
        return g
    g = with_reduced(g, self_dims, dim, keepdim)
    if dim is not None:
        return g * conjugate(_product_of_others(self, dim))
    others = _product_of_others(aten.reshape(self, (dm.product(self_dims),)), 0)
    return g * conjugate(aten.reshape(others, self_dims))


prod = define(
    "aten::prod(Tensor self, int? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "Product over `dim` (all dims when None). Integers and bool multiply as int64.",
    precision="float32",
    node=NodeBy("dim", "ProdBackward0", "ProdBackward1"),
    type=_prod_type,
    reduce=Reduce("prod"),
    vjp={"self": _prod_gradient},
    out=Out("computed"),
    reference=lambda x, dim, keepdim, dtype: np.prod(x, axis=numpy_axes(x, dim), keepdims=keepdim),
)


# ---- questions
def _is_empty(dim: Axes) -> bool:
    return isinstance(dim, (tuple, list)) and not dim


def _answer_type(name: str) -> Callable[..., TensorType]:
    def rule(self: TensorType, dim: Axes, keepdim: bool) -> TensorType:
        dtype = dt.uint8 if self.dtype is dt.uint8 else dt.bool_
        if _is_empty(dim) and self.is_complete:
            return tensor_type(dtype, self.shape, self.device)
        return reduced_type(name, self, dim, keepdim, dtype)

    return rule


def _question(name: str, words: str, reference: Callable[..., Any]) -> Op:
    return define(
        f"aten::{name}(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
        f"Whether {words} along `dim` (all dims when None, none of them when ()) is true (not 0).",
        type=_answer_type(name),
        reduce=Reduce(name, empty_is_none=True),
        vjp=NOT_DIFFERENTIABLE,
        out=Out(also=(dt.uint8,)),
        number_first=True,
        numbers_alone=True,
        reference=lambda x, dim, keepdim: reference(
            x, axis=() if _is_empty(dim) else numpy_axes(x, dim), keepdims=keepdim
        ),
    )


any_ = _question("any", "some element", np.any)
all_ = _question("all", "every element", np.all)

count_nonzero = define(
    "aten::count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
    "How many elements along `dim` (all dims when None) are not 0.",
    type=lambda self, dim: reduced_type("count_nonzero", self, dim, False, dt.int64),
    decompose=lambda self, dim: aten.sum(aten.ne(self, 0), dim),
    vjp=NOT_DIFFERENTIABLE,
    reference=lambda x, dim: np.count_nonzero(x, axis=numpy_axes(x, dim)),
)


# ---- log of a sum of exponentials
def _logsumexp_type(self: TensorType, dim: Axes, keepdim: bool) -> TensorType:
    dtype = self.dtype if self.dtype is None or self.dtype.is_differentiable else dt.get_default()
    return reduced_type("logsumexp", self, dim, keepdim, dtype)


def _logsumexp(self: Any, dim: Axes, keepdim: bool) -> Any:
    """Shifted by the greatest element, unless that is infinite."""
    if not self.dtype.is_differentiable:
        self = aten._to_copy(self, dtype=dt.get_default())
    greatest = aten._greatest(aten.real(self) if self.dtype.is_complex else self, dim, True)
    shift = aten.where(aten.isinf(greatest), 0, greatest)
    total = aten.log(aten.sum(aten.exp(self - shift), dim, keepdim))
    return total + (shift if keepdim else aten.reshape(shift, total.dims))


def _logsumexp_gradient(g: Any, self: Any, result: Any, self_dims: tuple[Dim, ...], dim: Axes, keepdim: bool) -> Any:
    g, result = (with_reduced(v, self_dims, dim, keepdim) for v in (g, result))
    return g * conjugate(aten.exp(self - result))


logsumexp = define(
    "aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    "log(sum(exp(x))) over `dim`, without overflow on the way.",
    type=_logsumexp_type,
    decompose=_logsumexp,
    vjp={"self": _logsumexp_gradient},
    batch=over("dim"), padding="lowest",
    out=Out("castable"),
    reference=lambda x, dim, keepdim: np.log(np.sum(np.exp(x), axis=numpy_axes(x, dim), keepdims=keepdim)),
)
