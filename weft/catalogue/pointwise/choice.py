"""Pointwise choice: the greater or smaller of two, clamping, where, replacing NaN, and writing into a tensor
(copy, fill)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from weft.catalogue.families import alias, pointwise
from weft.ops.batching import unary
from weft.ops.op import NodeBy, Op, Out, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import Pointwise, broadcast_dims, check_fits, dims_text, is_real, same_dims
from weft.ops.schema import parse_schema
from weft.support.errors import DTypeError, ShapeError, StateError
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType


def _is_integer(s: Any, x: Any) -> bool:
    return bool(s.dtype(x).category <= dt.INT)


def _shared_tie(g: Any, loses: Any, ties: Any) -> Any:
    """(Neither of two operands loses where one is NaN.)"""
    return aten.where(loses, 0, aten.where(ties, g / 2, g))


maximum = pointwise(
    "aten::maximum(Tensor self, Tensor other) -> Tensor",
    "The greater of two, NaN if either is. Equal operands share the gradient.",
    scalar=lambda s, a, b: s.maximum(a, b),
    accepts=is_real,
    wants="real numbers",
    inplace=False,
    number_first=True,
    vjp={
        "self": lambda g, self, other: _shared_tie(g, self < other, self == other),
        "other": lambda g, self, other: _shared_tie(g, other < self, self == other),
    },
    reference=np.maximum,
)

minimum = pointwise(
    "aten::minimum(Tensor self, Tensor other) -> Tensor",
    "The smaller of two, NaN if either is. Equal operands share the gradient.",
    scalar=lambda s, a, b: s.minimum(a, b),
    accepts=is_real,
    wants="real numbers",
    inplace=False,
    number_first=True,
    vjp={
        "self": lambda g, self, other: _shared_tie(g, self > other, self == other),
        "other": lambda g, self, other: _shared_tie(g, other > self, self == other),
    },
    reference=np.minimum,
)


def _without_nan(s: Any, choose: Any, a: Any, b: Any) -> Any:
    if _is_integer(s, a):
        return choose(a, b)
    return s.where(s.isnan(a), b, s.where(s.isnan(b), a, choose(a, b)))


fmax = pointwise(
    "aten::fmax(Tensor self, Tensor other) -> Tensor",
    "The greater of two; of a number and NaN, the number.",
    scalar=lambda s, a, b: _without_nan(s, s.maximum, a, b),
    accepts=is_real,
    inplace=False,
    numbers=False,
    vjp={
        "self": lambda g, self, other: aten.where(aten.logical_or(self >= other, aten.isnan(other)), g, 0),
        "other": lambda g, self, other: aten.where(aten.logical_or(self >= other, aten.isnan(other)), 0, g),
    },
    reference=np.fmax,
)

fmin = pointwise(
    "aten::fmin(Tensor self, Tensor other) -> Tensor",
    "The smaller of two; of a number and NaN, the number.",
    scalar=lambda s, a, b: _without_nan(s, s.minimum, a, b),
    accepts=is_real,
    inplace=False,
    numbers=False,
    vjp={
        "self": lambda g, self, other: aten.where(aten.logical_or(self <= other, aten.isnan(other)), g, 0),
        "other": lambda g, self, other: aten.where(aten.logical_or(self <= other, aten.isnan(other)), 0, g),
    },
    reference=np.fmin,
)


def _check_whole(tensor: Any, numbers: Sequence[Any]) -> None:
    """Refuse integers that an integer tensor's dtype, which the result has, does not hold:
    wrapped around they would be chosen."""
    if isinstance(tensor, TensorType) and tensor.dtype is not None and tensor.dtype.category == dt.INT:
        for number in numbers:
            if type(number) is int:
                check_fits(number, tensor.dtype)


def _has_integers(args: tuple[Any, ...]) -> bool:
    return any(isinstance(a, TensorType) and a.dtype is not None and a.dtype.category == dt.INT for a in args)


def _check_condition(condition: Any) -> None:
    if isinstance(condition, TensorType) and condition.dtype not in (None, dt.bool_, dt.uint8):
        raise DTypeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}"
        )


class _Condition(Pointwise):
    """where's rule: the condition must be bool."""

    def __call__(self, *args: Any) -> Any:
        _check_condition(args[0])
        self.check_numbers(args)
        return super().__call__(*args)

    def operand_dtype(self, args: tuple[Any, ...]) -> dt.DType:
        _check_condition(args[0])
        return super().operand_dtype(args)

    def looks_at_numbers(self, args: tuple[Any, ...]) -> bool:
        return _has_integers(args[1:])

    def check_numbers(self, args: tuple[Any, ...]) -> None:
        _check_whole(args[1], args[2:])
        _check_whole(args[2], args[1:2])


where = pointwise(
    "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    "self where the condition holds, else other.",
    scalar=lambda s, c, a, b: s.where(s.cast(c, dt.bool_), a, b),
    keep=("condition",),
    rule=_Condition,
    inplace=False,
    out=Out("exact"),
    number_first=True,
    vjp={
        "self": lambda g, condition: aten.where(condition, g, 0),
        "other": lambda g, condition: aten.where(condition, 0, g),
    },
    reference=np.where,
)
define("aten::where(Tensor condition) -> Tensor[]", "The places where the condition holds, one vector for each dim.",
       decompose=lambda condition: aten.nonzero_numpy(condition), public=("weft",))


class _IntoSelf(Pointwise):
    """The rule of copy and fill: the result has self's dims and dtype; the source must broadcast to them."""

    into_self = True

    def __call__(self, *args: Any) -> Any:
        target, source = args[0], args[1]
        self.check_numbers(args)
        if isinstance(source, TensorType) and target.is_complete and source.is_complete:
            joined = broadcast_dims(self.schema.base, [target.shape, source.shape])
            if not same_dims(joined, target.shape):
                raise ShapeError(
                    f"{self.schema.base}: output with shape {dims_text(target.shape)} doesn't match the broadcast "
                    f"shape {dims_text(joined)}; the source has shape {dims_text(source.shape)}"
                )
        return target

    def check_numbers(self, args: tuple[Any, ...]) -> None:
        check_fits(args[1], args[0].dtype)


def _no_number(ndim: int) -> ShapeError:
    return ShapeError(f"fill_ only supports 0-dimension value tensor but got tensor with {ndim} dimensions.")


class _Filled(_IntoSelf):
    """The rule of fill with a tensor: it has no dims."""

    def result_dtype(self, args: tuple[Any, ...]) -> dt.DType:
        value = args[1]
        if isinstance(value, TensorType) and value.dims:
            raise _no_number(len(value.dims))
        return super().result_dtype(args)

    def __call__(self, *args: Any) -> Any:
        self.result_dtype(args)
        return super().__call__(*args)


copy = pointwise(
    "aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
    "src with the dims and dtype of self: what `self.copy_(src)` writes.",
    scalar=lambda s, x, src, non_blocking: src,
    node="CopyBackwards",
    over=("src",),
    keep=("self",),
    result="self",
    rule=_IntoSelf,
    vjp={"src": lambda g: g},
    public=("Tensor",),
    out=False,
    reference=lambda x, src, non_blocking: np.broadcast_to(src, x.shape).astype(x.dtype),
    identity=lambda self, src, non_blocking: 1,
    crosses_devices=True,
)

def _fill_examples(op: Op, size: Any, flags: tuple[Any, ...], self: Any, value: Any) -> Any:
    if not flags[1]:
        return call(op, (self, value))
    if value.ndim > 1:
        raise _no_number(value.ndim - 1)
    whole = self if flags[0] else aten.expand(self, (size, *self.dims))
    return aten.copy(whole, aten.reshape(value, (size, *(1,) * (whole.ndim - 1))))


fill_tensor = pointwise(
    "aten::fill.Tensor(Tensor self, Tensor value) -> Tensor",
    "A tensor like self with every element equal to `value`, a 0-dim tensor.",
    node="FillBackward1", inplace_node="FillBackward3",
    scalar=lambda s, x, value: value, over=("self",),
    rule=_Filled,
    result="self",
    numbers=False,
    out=False,
    vjp={"value": lambda g: g},
    reference=lambda x, value: np.full_like(x, value),
    is_splat=True,
    batch=_fill_examples,
)

fill = pointwise(
    "aten::fill.Scalar(Tensor self, Scalar value) -> Tensor",
    "A tensor like self with every element equal to `value`.",
    node="FillBackward0", inplace_node="FillBackward2",
    scalar=lambda s, x, value: value, over=("self",),
    rule=_IntoSelf,
    result="self",
    numbers=False,
    out=False,
    vjp={"self": lambda g: aten.zeros_like(g)},
    reference=lambda x, value: np.full_like(x, value),
    is_splat=True,
)

zero = pointwise(
    "aten::zero(Tensor self) -> Tensor",
    "A tensor like self, all 0.",
    scalar=lambda s, x: s.const(0, s.dtype(x)),
    out=False,
    numbers=False,
    vjp={"self": lambda g: aten.zeros_like(g)},
    reference=np.zeros_like,
    is_splat=True,
)


class _Bounds(Pointwise):
    """clamp's rule: at least one bound."""

    @cached_property
    def promotes(self) -> bool:
        return any(a.is_tensor for a in self.schema.arguments[1:])

    def compute_dtype(self, args: tuple[Any, ...]) -> dt.DType:
        if all([a is None for a in args[1:]]):
            raise StateError("clamp: At least one of 'min' or 'max' must not be None")
        return super().compute_dtype(args)

    def __call__(self, *args: Any) -> Any:
        self.check_numbers(args)
        return super().__call__(*args)

    def looks_at_numbers(self, args: tuple[Any, ...]) -> bool:
        return _has_integers(args)

    def check_numbers(self, args: tuple[Any, ...]) -> None:
        _check_whole(args[0], args[1:])


def _clamped(s: Any, x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = s.maximum(x, low)
    return x if high is None else s.minimum(x, high)


def _clamp_gradient(g: Any, self: Any, min: Any, max: Any) -> Any:
    """g where self lies within the bounds, ends included; a bound that is None is left out."""
    if max is None:
        return aten.where(self >= min, g, 0)
    if min is None:
        return aten.where(self <= max, g, 0)
    return aten.where(aten.logical_and(self >= min, self <= max), g, 0)


def _clamp_min_gradient(g: Any, self: Any, min: Any, max: Any) -> Any:
    below = self < min
    return aten.where(below if max is None else aten.logical_and(min < max, below), g, 0)


def _clamp_max_gradient(g: Any, self: Any, min: Any, max: Any) -> Any:
    above = self > max
    return aten.where(above if min is None else aten.logical_or(max < min, above), g, 0)


def _numpy_clamp(x: Any, low: Any, high: Any) -> Any:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


clamp_tensor = pointwise(
    "aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    "Each element, moved to the nearest bound if it lies outside of [min, max]. If min > max, the result is max.",
    scalar=_clamped,
    rule=_Bounds,
    accepts=is_real,
    wants="real numbers",
    numbers=False,
    vjp={"self": _clamp_gradient, "min": _clamp_min_gradient, "max": _clamp_max_gradient},
    reference=_numpy_clamp,
)

clamp = pointwise(
    "aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    "Each element, moved to the nearest bound if it lies outside of [min, max]. If min > max, the result is max.",
    scalar=_clamped,
    rule=_Bounds,
    accepts=is_real,
    wants="real numbers",
    numbers=False,
    vjp={"self": _clamp_gradient},
    reference=_numpy_clamp,
)

clamp_min = pointwise(
    "aten::clamp_min(Tensor self, Tensor min) -> Tensor",
    "The greater of each element and a bound (a number or a tensor).",
    node=NodeBy("min", "ClampMinBackward0", "ClampMinBackward1"),
    scalar=lambda s, x, low: s.maximum(x, low), rule=_Bounds,
    accepts=is_real,
    vjp={
        "self": lambda g, self, min: aten.where(self >= min, g, 0),
        "min": lambda g, self, min: aten.where(self < min, g, 0),
    },
    reference=np.maximum,
)

clamp_max = pointwise(
    "aten::clamp_max(Tensor self, Tensor max) -> Tensor",
    "The smaller of each element and a bound (a number or a tensor).",
    node=NodeBy("max", "ClampMaxBackward0", "ClampMaxBackward1"),
    scalar=lambda s, x, high: s.minimum(x, high),
    rule=_Bounds,
    accepts=is_real,
    vjp={
        "self": lambda g, self, max: aten.where(self <= max, g, 0),
        "max": lambda g, self, max: aten.where(self > max, g, 0),
    },
    reference=np.minimum,
)

alias("aten::clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", clamp_tensor)
alias("aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp)

_LARGEST = {
    dt.float16: 65504.0, dt.bfloat16: 3.3895313892515355e38,
    dt.float32: float(np.finfo(np.float32).max), dt.float64: float(np.finfo(np.float64).max),
}


def _replace_nan(self: Any, nan: float | None, posinf: float | None, neginf: float | None) -> Any:
    dtype: dt.DType = self.dtype
    if dtype.category <= dt.INT:
        return aten.clone(self)
    if dtype.is_complex:
        return aten.complex(*(_replace_nan(part, nan, posinf, neginf) for part in (aten.real(self), aten.imag(self))))
    largest = _LARGEST[dtype]
    below = aten.where(self == math.inf, largest if posinf is None else posinf, self)
    finite = aten.where(self == -math.inf, -largest if neginf is None else neginf, below)
    return aten.where(aten.isnan(self), 0.0 if nan is None else nan, finite)


def _numpy_nan_to_num(x: Any, nan: float | None, posinf: float | None, neginf: float | None) -> Any:
    return np.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


_nan_to_num = parse_schema(
    "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"
)
nan_to_num = define(
    _nan_to_num,
    "The tensor with NaN replaced by `nan` (0), infinities by `posinf` and `neginf` (the dtype's greatest and "
    "least number).",
    type=Pointwise(_nan_to_num, over=("self",)),
    decompose=_replace_nan,
    vjp={"self": lambda g, self: aten.where(aten.isfinite(self), g, 0)},
    batch=unary,
    inplace=True,
    out=True,
    reference=_numpy_nan_to_num,
)
