"""Writing at places along one dim, with an index as large as what is written: scatter, scatter_add, scatter_reduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.families import dtype_of
from weft.catalogue.indexing.checks import check_bounds
from weft.catalogue.indexing.reads import check_gather, larger_dims
from weft.catalogue.reductions.extrema import is_extremum
from weft.catalogue.samples import F, I, P, case, draw
from weft.ops.batching import along
from weft.ops.op import define, joint, writing
from weft.ops.packet import aten
from weft.ops.rules import check_fits, dims_text
from weft.ops.scalar_numpy import NUMPY
from weft.ops.tangents import linear
from weft.support.errors import DTypeError, ShapeError
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType

Array = Any


def _scatter_type(self: TensorType, dim: int, index: TensorType, src: Any, *rest: Any, **named: Any) -> TensorType:
    check_gather("scatter", self, dim, index)
    if isinstance(src, TensorType):
        if self.dtype is not None and src.dtype is not None and self.dtype is not src.dtype:
            raise DTypeError("scatter(): Expected self.dtype to be equal to src.dtype")
        if src.is_complete and index.is_complete:
            for i in larger_dims(index, src, "src"):
                raise ShapeError(
                    f"Expected index {dims_text(index.shape)} to be no larger than src {dims_text(src.shape)} in all "
                    f"dimensions (dim {i})"
                )
    check_fits(src, self.dtype)
    return self


def _places(x: Array, dim: int, index: Array, src: Any) -> tuple[Array, tuple[Any, ...], Any]:
    """x with at least one dim, the NumPy index of the places, and the values for them."""
    out = np.atleast_1d(x)
    index = np.atleast_1d(index)
    at = dim % out.ndim
    check_bounds(index, out.shape[at], at)
    grids = list(np.ogrid[tuple(slice(0, n) for n in index.shape)])
    grids[at] = index
    if isinstance(src, np.ndarray):
        src = np.atleast_1d(src)[tuple(slice(0, n) for n in index.shape)]
    else:
        src = NUMPY.const(src, dt.from_numpy(x.dtype))
    return out, tuple(grids), src


_UFUNCS = {
    "add": np.add, "sum": np.add, "multiply": np.multiply, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum
}


def _scatter(x: Array, dim: int, index: Array, src: Any, reduce: str | None = None) -> None:
    if index.size == 0:
        return
    out, places, values = _places(x, dim, index, src)
    if reduce is None:
        out[places] = values
    elif reduce in _UFUNCS:
        _UFUNCS[reduce].at(out, places, np.asarray(values, out.dtype))
    else:
        raise ShapeError("reduce argument must be either add or multiply.")


def _scatter_grad_self(g: Any, dim: int, index: Any) -> Any:
    return aten.scatter(g, dim, index, 0)


define(
    "aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    "A copy of self with out[index[i][j]][j] = src[i][j] for dim 0, and so on for the other dims.",
    type=_scatter_type,
    **writing(_scatter),
    vjp={"self": _scatter_grad_self, "src": lambda g, dim, index: aten.gather(g, dim, index)},
    batch=along("dim"), jvp=linear,
    effect="raises",
    inplace=True,
    out=True,
)
define(
    "aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    "A copy of self with a number at the places that index names.",
    type=_scatter_type,
    **writing(_scatter),
    vjp={"self": _scatter_grad_self},
    batch=along("dim"),
    effect="raises",
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4), 0, I(2, 4, high=3), 1.5)),
)


def _check_reduce(reduce: str) -> None:
    if reduce not in ("add", "multiply"):
        raise ShapeError("reduce argument must be either add or multiply.")


def _scatter_reduce_type(self: TensorType, dim: int, index: TensorType, src: Any, reduce: str) -> TensorType:
    _check_reduce(reduce)
    return _scatter_type(self, dim, index, src)


def _scatter_combined(self: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    _check_reduce(reduce)
    values = aten.full(index.dims, src, dtype=self.dtype) if dtype_of(src) is None else src
    return (
        aten.scatter_add(self, dim, index, values) if reduce == "add"
        else aten.scatter_reduce(self, dim, index, values, "prod", include_self=True)
    )


for _overload, _kind, _name in (("reduce", "Tensor", "src"), ("value_reduce", "Scalar", "value")):
    define(
        f"aten::scatter.{_overload}(Tensor self, int dim, Tensor index, {_kind} {_name}, *, str reduce) -> Tensor",
        "A copy of self in which the places that index names are combined with the source: `add` or `multiply`.",
        type=_scatter_reduce_type,
        decompose=_scatter_combined,
        effect="raises",
        inplace=True,
        out=True,
    )


def _scatter_add(x: Array, dim: int, index: Array, src: Array) -> None:
    _scatter(x, dim, index, src, "add")


scatter_add = define(
    "aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    "A copy of self with src added at the places that index names.",
    type=_scatter_type,
    **writing(_scatter_add),
    vjp={"self": lambda g: g, "src": lambda g, dim, index: aten.gather(g, dim, index)},
    batch=along("dim"), jvp=linear,
    effect="raises",
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4), 0, I(2, 4, high=3), F(2, 4))),
)

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
_IDENTITY = {"sum": 0, "mean": 0, "prod": 1}


def _reduce_two_type(
    self: TensorType, dim: int, index: TensorType, src: TensorType, reduce: str, include_self: bool
) -> TensorType:
    if reduce not in _REDUCTIONS:
        raise ShapeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    return _scatter_type(self, dim, index, src)


def _reduce_two(x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool) -> Array:
    if index.size == 0:
        return x.copy()
    out, places, values = _places(x.copy(), dim, index, src)
    wide = dt.compute_dtype(dt.from_numpy(out.dtype)).numpy
    out, values = out.astype(wide, copy=False), np.asarray(values).astype(wide, copy=False)
    if not include_self:
        out[places] = _IDENTITY.get(reduce, values)
    _UFUNCS["sum" if reduce == "mean" else reduce].at(out, places, values)
    if reduce == "mean":
        count = np.full(out.shape, int(include_self), np.int64)
        np.add.at(count, places, 1)
        count = np.maximum(count, 1)
        out = out / count.astype(out.dtype) if out.dtype.kind in "fc" else np.floor_divide(out, count.astype(out.dtype))
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _reduce_two_back(
    g: Any, needs: Any, self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, result: Any
) -> tuple[Any, Any]:
    if reduce == "sum":
        grad_self, grad_src = g, aten.gather(g, dim, index)
    elif reduce == "prod":
        kept = self if include_self else aten.scatter(self, dim, index, 1)
        grad_self, grad_src = _prod_back(g, kept, dim, index, src, result)
    elif reduce == "mean":
        count = aten.ones_like(self) if include_self else aten.zeros_like(self)
        count = aten.clamp_min(aten.scatter_add(count, dim, index, aten.ones_like(src)), 1)
        grad_self = g / count
        grad_src = aten.gather(grad_self, dim, index)
    else:
        chosen = is_extremum(self, result)
        chosen_src = is_extremum(src, aten.gather(result, dim, index))
        ties = aten.to(chosen, g.dtype) if include_self else aten.zeros_like(g)
        ties = aten.scatter_add(ties, dim, index, aten.to(chosen_src, g.dtype))
        shared = g / aten.clamp_min(ties, 1)
        grad_self = aten.where(chosen, shared, 0)
        grad_src = aten.where(chosen_src, aten.gather(shared, dim, index), 0)
    if not include_self:
        grad_self = aten.scatter(grad_self, dim, index, 0)
    return grad_self, grad_src


def _prod_back(g: Any, self: Any, dim: int, index: Any, src: Any, result: Any) -> tuple[Any, Any]:
    """Products without one factor. What has zeros among its factors is written so that its gradient is right too: of
    one zero the others are a product without zeros, of two the other zero stands beside it."""
    zero_self, zero_src = self == 0, src == 0
    zeros = aten.scatter_add(aten.to(zero_self, g.dtype), dim, index, aten.to(zero_src, g.dtype))
    safe_self, safe_src = aten.masked_fill(self, zero_self, 1), aten.masked_fill(src, zero_src, 1)
    rest = aten.scatter_reduce(safe_self, dim, index, safe_src, "prod", include_self=True)
    nothings = aten.scatter_add(aten.where(zero_self, self, 0), dim, index, aten.where(zero_src, src, 0))

    def without(factor: Any, is_zero: Any, safe: Any, of_group: tuple[Any, ...]) -> Any:
        whole, product, count, zeros_sum = of_group
        of_zero = aten.where(count == 1, product, aten.where(count == 2, product * (zeros_sum - factor), 0))
        return aten.where(is_zero, of_zero, whole / safe)

    groups = (result, rest, zeros, nothings)
    grad_self = g * without(self, zero_self, safe_self, groups)
    at, *gathered = (aten.gather(t, dim, index) for t in (g, *groups))
    return grad_self, at * without(src, zero_src, safe_src, tuple(gathered))


define(
    "aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, "
    "bool include_self=True) -> Tensor",
    "A copy of self in which the places that index names hold the sum, prod, mean, amax or amin of the sources "
    "(and of self, if included).",
    type=_reduce_two_type,
    kernel=_reduce_two,
    vjp=joint(("self", "src"), _reduce_two_back),
    batch=along("dim"),
    effect="raises",
    inplace=True,
    out=True,
    samples=draw(
        case(F(3, 4), 0, I(2, 4, high=3), F(2, 4), "sum"), case(P(3, 4), 0, I(4, 4, high=3), P(4, 4), "prod"),
        case(F(3, 4), 1, I(3, 4, high=4), F(3, 4), "mean", include_self=False),
        case(F(3, 4), 0, I(3, 4, high=3), F(3, 4), "amax"),
    ),
)
