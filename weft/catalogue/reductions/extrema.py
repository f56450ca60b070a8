"""Extrema: greatest and least elements, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.reductions.sums import Axes, numpy_axes, reduced_type, with_reduced
from weft.ops.batching import along
from weft.ops.op import NOT_DIFFERENTIABLE, Op, Out, Reduce, define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim, normalize_dims
from weft.ops.tangents import picked
from weft.support.errors import DTypeError, IndexBoundsError, StateError, WeftError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType


def _refuse(name: str, self: TensorType, axes: tuple[int, ...], full: bool = False) -> None:
    """Extrema of complex numbers, and of nothing, do not exist."""
    if self.dtype is not None and self.dtype.is_complex:
        raise DTypeError(f"{name}(): does not support complex input, got {self.dtype}")
    if not self.is_complete:
        return
    if not self.ndim:
        return
    if full:
        shape_env.refuse_equal(dm.product(self.shape), 0, lambda: _of_nothing(name))
        return
    for axis in axes:
        shape_env.refuse_equal(self.shape[axis], 0, lambda axis=axis: IndexBoundsError(  # type: ignore[misc]
            f"{name}(): Expected reduction dim {axis} to have non-zero size."))


def _of_nothing(name: str) -> WeftError:
    what = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
    return (
        IndexBoundsError(what) if name.startswith("arg")
        else StateError(f"{what} Specify the reduction dim with the 'dim' argument.")
    )


def _extremum_type(name: str) -> Callable[..., TensorType]:
    def rule(self: TensorType, dim: Axes, keepdim: bool) -> TensorType:
        if self.dims is not None:
            _refuse(name, self, normalize_dims(name, dim, self.ndim), full=dim is None or dim == ())
        return reduced_type(name, self, dim, keepdim, self.dtype)

    return rule


def is_extremum(self: Any, extremum: Any) -> Any:
    """Whether an element is the extremum: equal to it, or NaN where it is NaN."""
    both_nan = aten.logical_and(aten.ne(self, self), aten.ne(extremum, extremum))
    return aten.logical_or(aten.eq(self, extremum), both_nan)


def shared_among_ties(g: Any, self: Any, result: Any, self_dims: tuple[Dim, ...], dim: Axes, keepdim: bool) -> Any:
    """Each of the elements equal to the extremum gets an equal part of g."""
    g, result = (with_reduced(v, self_dims, dim, keepdim) for v in (g, result))
    equal = is_extremum(self, result)
    return aten.where(equal, g / aten.sum(aten._to_copy(equal, dtype=g.dtype), dim, True), 0)  # also of a g that is inf


def _shared_among_equals(g: Any, self: Any, result: Any, self_dims: tuple[Dim, ...], dim: Axes, keepdim: bool) -> Any:
    """As above, but NaN equals nothing: the gradient of a slice with a NaN is NaN all over, as in PyTorch."""
    g, result = (with_reduced(v, self_dims, dim, keepdim) for v in (g, result))
    ties = aten._to_copy(aten.eq(self, result), dtype=g.dtype)
    return ties * (g / aten.sum(ties, dim, True))


def _extremum(name: str, words: str, reference: Callable[..., Any]) -> Op:
    return define(
        f"aten::{name}(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
        f"The {words} element over `dim` (all dims when None). Equal ones share the gradient.",
        type=_extremum_type(name),
        reduce=Reduce(name[1:]),
        vjp={"self": _shared_among_equals},
        out=True,
        reference=lambda x, dim, keepdim: reference(x, axis=numpy_axes(x, dim), keepdims=keepdim),
    )


greatest = define(
    "aten::_greatest(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    "amax that is never refused: over no elements it is the least number there is. For what is computed of rows that "
    "may be empty.",
    type=lambda self, dim, keepdim: reduced_type("amax", self, dim, keepdim, self.dtype),
    reduce=Reduce("max"),
    vjp={"self": shared_among_ties},
    public=(),
    reference=lambda x, dim, keepdim: np.max(x, axis=numpy_axes(x, dim), keepdims=keepdim),
)
amax = _extremum("amax", "greatest", np.max)
amin = _extremum("amin", "least", np.min)


# ---- positions
def _position_type(name: str) -> Callable[..., TensorType]:
    def rule(self: TensorType, dim: int | None, keepdim: bool) -> TensorType:
        if self.dims is not None:
            _refuse(name, self, normalize_dims(name, dim, self.ndim), full=dim is None)
        return reduced_type(name, self, dim, keepdim, dt.int64)

    return rule


def _position(name: str, words: str, reference: Callable[..., Any]) -> Op:
    return define(
        f"aten::{name}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        f"The index of the first {words} element along `dim` (of the flattened tensor when None).",
        type=_position_type(name),
        reduce=Reduce(name),
        vjp=NOT_DIFFERENTIABLE,
        out=True,
        reference=lambda x, dim, keepdim: reference(x, axis=dim, keepdims=keepdim) if x.ndim else np.int64(0),
    )


argmax = _position("argmax", "greatest", np.argmax)
argmin = _position("argmin", "least", np.argmin)


# ---- max and min
def picked_gradient(g: Any, index: Any, self_dims: tuple[Dim, ...], dim: int, keepdim: bool) -> Any:
    """g put back at the picked indices along `dim`, zeros elsewhere."""
    if not self_dims:
        return g
    axis = normalize_dim("max", dim, len(self_dims))
    if not keepdim:
        g, index = aten.unsqueeze(g, axis), aten.unsqueeze(index, axis)
    return aten.scatter(aten.zeros(self_dims, dtype=g.dtype), axis, index, g)


def _pair_type(name: str) -> Callable[..., tuple[TensorType, TensorType]]:
    def rule(self: TensorType, dim: int, keepdim: bool) -> tuple[TensorType, TensorType]:
        if self.dims is not None:
            _refuse(name, self, normalize_dims(name, dim, self.ndim))
        return tuple(reduced_type(name, self, dim, keepdim, d) for d in (self.dtype, dt.int64))  # type: ignore[return-value]

    return rule


def _with_position(name: str, words: str, all_of: Op, position: Op, of_two: str, reference: Callable[..., Any]) -> None:
    whole, where_found = f"a{name}", f"arg{name}"
    padding = "lowest" if name == "max" else "highest"

    def of_all(op: Op, size: Dim, flags: Any, self: Any) -> Any:
        """amax and amin share the gradient between equal elements in the same way."""
        return getattr(aten, whole)(self, tuple(range(1, self.ndim))) if self.ndim > 1 else aten.clone(self)

    define(
        f"aten::{name}(Tensor self) -> Tensor",
        f"The {words} element. Equal ones share the gradient.",
        type=lambda self: all_of.type(self, None, False),  # type: ignore[misc]
        node=f"{name.title()}Backward1",
        decompose=lambda self: getattr(aten, whole)(self),
        vjp={"self": lambda g, self, result, self_dims: shared_among_ties(g, self, result, self_dims, None, False)},
        batch=of_all, padding=padding,
        reference=reference,
    )
    define(
        f"aten::{name}.other(Tensor self, Tensor other) -> Tensor",
        f"The {words} of two, element by element ({of_two}).",
        type=lambda self, other: getattr(aten, of_two).overloads[0].type(self, other),
        decompose=lambda self, other: getattr(aten, of_two)(self, other),
        out=Out("castable"),
        reference=getattr(np, of_two),
    )
    define(
        f"aten::{name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        f"The {words} element along `dim` and the index of the first of them, which gets the gradient.",
        type=_pair_type(name),
        node=f"{name.title()}Backward0",
        decompose=lambda self, dim, keepdim: (
            getattr(aten, whole)(self, dim, keepdim), getattr(aten, where_found)(self, dim, keepdim)),
        vjp={"self": lambda g, result1, self_dims, dim, keepdim: picked_gradient(g, result1, self_dims, dim, keepdim)},
        batch=along("dim"), jvp=picked, padding=padding,
        out=True,
        reference=lambda x, dim, keepdim: (
            reference(x, axis=numpy_axes(x, dim), keepdims=keepdim),
            getattr(np, where_found)(x, axis=dim, keepdims=keepdim) if x.ndim else np.int64(0)),
    )


_with_position("max", "greatest", amax, argmax, "maximum", np.max)
_with_position("min", "least", amin, argmin, "minimum", np.min)


def _aminmax_type(self: TensorType, dim: int | None, keepdim: bool) -> tuple[TensorType, TensorType]:
    if self.dims is not None:
        _refuse("aminmax", self, normalize_dims("aminmax", dim, self.ndim), full=dim is None)
    extremum = reduced_type("aminmax", self, dim, keepdim, self.dtype)
    return extremum, extremum


aminmax = define(
    "aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    "The least and the greatest element over `dim` (all dims when None).",
    type=_aminmax_type,
    decompose=lambda self, dim, keepdim: (aten.amin(self, dim, keepdim), aten.amax(self, dim, keepdim)),
    out=True,
    reference=lambda x, dim, keepdim: tuple(f(x, axis=numpy_axes(x, dim), keepdims=keepdim) for f in (np.min, np.max)),
)
