"""Statistics: variance, standard deviation, and both with the mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.reductions.sums import Axes, numpy_axes, reduced_count, reduced_type, with_reduced
from weft.ops.batching import over
from weft.ops.op import Op, Out, define
from weft.ops.packet import aten
from weft.support.errors import DTypeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim, Expr
from weft.types.tensor_type import TensorType

Dims = tuple[Dim, ...]
Number = Any
FEW = 65  # numbers whose mean is exact enough


def _spread_type(name: str, self: TensorType, dim: Axes, keepdim: bool) -> TensorType:
    if self.dtype is not None and not self.dtype.is_differentiable:
        raise DTypeError(f"{name} only support floating point and complex dtypes, got {self.dtype}")
    return reduced_type(name, self, dim, keepdim, None if self.dtype is None else self.dtype.to_real())


def degrees_of_freedom(dims: Dims, dim: Axes, correction: Number) -> Any:
    """count - correction, not below 0; a 0-dim tensor where a fraction is taken from a symbolic count."""
    correction = 1 if correction is None else correction
    count = reduced_count(dims, dim)
    if isinstance(correction, float) and correction.is_integer():
        correction = int(correction)
    if isinstance(correction, int):
        return dm.maximum(count - correction, 0)
    if isinstance(count, Expr) or type(correction) is not float:
        return aten.clamp_min(aten.sub(aten.full((), count, dtype=dt.float64), correction), 0.0)
    return max(count - correction, 0.0)


def _deviations(self: Any, dim: Axes) -> Any:
    return self - aten.mean(self, dim, True)


def _squares(x: Any) -> Any:
    return aten.square(aten.abs(x)) if x.dtype.is_complex else x * x


def _without_rounding(spread: Any, off: Any, dim: Axes, keepdim: bool) -> Any:
    """The mean is rounded: what the distances from it add up to says by how much, and is taken off.
    Where they are few, what they add up to is no more exact than the mean, and short rows would pay for it."""
    count = reduced_count(off.dims, dim)
    if shape_env.is_less(count, FEW):
        return spread
    return aten.clamp_min(spread - aten.div(_squares(aten.sum(off, dim, keepdim)), count), 0)


def _variance(self: Any, dim: Axes, correction: Number, keepdim: bool) -> Any:
    """The mean squared distance from the mean, in two passes; half precisions compute in float32."""
    dtype = self.dtype
    wide = aten._to_copy(self, dtype=dt.compute_dtype(dtype)) if dt.compute_dtype(dtype) is not dtype else self
    off = _deviations(wide, dim)
    spread = _without_rounding(aten.sum(_squares(off), dim, keepdim), off, dim, keepdim)
    out = aten.div(spread, degrees_of_freedom(self.dims, dim, correction))
    return out if out.dtype is dtype.to_real() else aten._to_copy(out, dtype=dtype.to_real())


def _variance_gradient(g: Any, self: Any, self_dims: Dims, dim: Axes, correction: Number, keepdim: bool) -> Any:
    g = with_reduced(g, self_dims, dim, keepdim)
    return aten.div(2 * g, degrees_of_freedom(self_dims, dim, correction)) * _deviations(self, dim)


def _deviation_gradient(
    g: Any, self: Any, result: Any, self_dims: Dims, dim: Axes, correction: Number, keepdim: bool
) -> Any:
    """d sqrt(v) = dv / (2 sqrt(v)), and 0 where the deviation is 0."""
    through_root = aten.where(result == 0, 0, g / (2 * result))
    return _variance_gradient(through_root, self, self_dims, dim, correction, keepdim)


def _numpy_spread(reference: Callable[..., Any]) -> Callable[..., Any]:
    def oracle(x: Any, dim: Axes, correction: Number, keepdim: bool) -> Any:
        return reference(x, axis=numpy_axes(x, dim), ddof=1 if correction is None else correction, keepdims=keepdim)

    return oracle


def _spread(
    name: str, words: str, rule: Callable[..., Any], gradient: Callable[..., Any], reference: Callable[..., Any]
) -> Op:
    """The overloads of var and std: with a correction, and with the older `unbiased`."""
    main = define(
        f"aten::{name}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
        "bool keepdim=False) -> Tensor",
        f"The {words} over `dim` (all dims when None); `correction` (1 when None) is taken from the count.",
        type=lambda self, dim, correction, keepdim: _spread_type(name, self, dim, keepdim),
        decompose=rule,
        vjp={"self": gradient},
        batch=over("dim"),
        out=Out("castable"),
        reference=_numpy_spread(reference),
    )
    packet = f"{name}"
    define(
        f"aten::{name}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        f"The {words} over `dim`; unbiased takes 1 from the count.",
        type=lambda self, dim, unbiased, keepdim: _spread_type(name, self, dim, keepdim),
        decompose=lambda self, dim, unbiased, keepdim: getattr(aten, packet).correction(
            self, dim, correction=int(unbiased), keepdim=keepdim),
        reference=lambda x, dim, unbiased, keepdim: _numpy_spread(reference)(x, dim, int(unbiased), keepdim),
    )
    define(
        f"aten::{name}(Tensor self, bool unbiased=True) -> Tensor",
        f"The {words} of all elements; unbiased takes 1 from the count.",
        type=lambda self, unbiased: _spread_type(name, self, None, False),
        decompose=lambda self, unbiased: getattr(aten, packet).correction(self, None, correction=int(unbiased)),
        reference=lambda x, unbiased: _numpy_spread(reference)(x, None, int(unbiased), False),
    )
    return main


def _deviation(self: Any, dim: Axes, correction: Number, keepdim: bool) -> Any:
    return aten.sqrt(_variance(self, dim, correction, keepdim))


var = _spread("var", "variance", _variance, _variance_gradient, np.var)
std = _spread("std", "standard deviation", _deviation, _deviation_gradient, np.std)


def _and_of_mean(total: Any, of_mean: Any, dims: Dims, dim: Axes, keepdim: bool) -> Any:
    """A gradient and that of the mean, where either may be missing."""
    if of_mean is None:
        return total
    mean = aten.div(aten.expand(with_reduced(of_mean, dims, dim, keepdim), dims), reduced_count(dims, dim))
    return mean if total is None else total + mean


def _var_mean_gradient(gs: Any, self: Any, self_dims: Dims, dim: Axes, correction: Number, keepdim: bool) -> Any:
    of_var = None if gs[0] is None else _variance_gradient(gs[0], self, self_dims, dim, correction, keepdim)
    return _and_of_mean(of_var, gs[1], self_dims, dim, keepdim)


def _std_mean_gradient(
    gs: Any, self: Any, result: Any, self_dims: Dims, dim: Axes, correction: Number, keepdim: bool
) -> Any:
    of_std = None if gs[0] is None else _deviation_gradient(gs[0], self, result, self_dims, dim, correction, keepdim)
    return _and_of_mean(of_std, gs[1], self_dims, dim, keepdim)


def _with_mean(name: str, words: str, gradient: Callable[..., Any]) -> None:
    """var_mean and std_mean: two results of one node."""

    def pair_type(self: TensorType, dim: Axes, keepdim: bool) -> tuple[TensorType, TensorType]:
        return _spread_type(name, self, dim, keepdim), reduced_type(name, self, dim, keepdim, self.dtype)

    def pair(self: Any, dim: Axes, correction: Number, keepdim: bool) -> tuple[Any, Any]:
        return getattr(aten, name).correction(self, dim, correction=correction, keepdim=keepdim), aten.mean(
            self, dim, keepdim
        )

    def oracle(x: Any, dim: Axes, correction: Number, keepdim: bool) -> tuple[Any, Any]:
        spread = _numpy_spread(getattr(np, name))(x, dim, correction, keepdim)
        return spread, np.mean(x, axis=numpy_axes(x, dim), keepdims=keepdim)

    define(
        f"aten::{name}_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"
        " -> (Tensor, Tensor)",
        f"The {words} and the mean over `dim` (all dims when None).",
        type=lambda self, dim, correction, keepdim: pair_type(self, dim, keepdim),
        decompose=pair,
        vjp={"self": gradient},
        public=("weft",),
        reference=oracle,
    )
    define(
        f"aten::{name}_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
        f"The {words} and the mean over `dim`; unbiased takes 1 from the count.",
        type=lambda self, dim, unbiased, keepdim: pair_type(self, dim, keepdim),
        decompose=lambda self, dim, unbiased, keepdim: pair(self, dim, int(unbiased), keepdim),
        public=("weft",),
        reference=lambda x, dim, unbiased, keepdim: oracle(x, dim, int(unbiased), keepdim),
    )
    define(
        f"aten::{name}_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
        f"The {words} and the mean of all elements.",
        type=lambda self, unbiased: pair_type(self, None, False),
        decompose=lambda self, unbiased: pair(self, None, int(unbiased), False),
        public=("weft",),
        reference=lambda x, unbiased: oracle(x, None, int(unbiased), False),
    )


_with_mean("var", "variance", _var_mean_gradient)
_with_mean("std", "standard deviation", _std_mean_gradient)
