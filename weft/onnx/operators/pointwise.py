"""Arithmetic, comparisons, logic and rounding, element by element."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import weft
import weft.onnx.exact as exact
from weft.onnx.dtypes import dtype_of
from weft.onnx.registry import operator, pair, symbolic
from weft.onnx.values import Either, Known, objects
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

_HOSTS: dict[str, Any] = {
    "abs": np.abs, "neg": np.negative, "floor": np.floor, "ceil": np.ceil, "logical_not": np.logical_not,
    "eq": np.equal, "gt": np.greater, "lt": np.less, "ge": np.greater_equal, "le": np.less_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip


def _same(onnx: str, name: str, cast: str = "result") -> None:
    """An operator of weft's with ONNX's meaning."""
    base = name.partition(".")[0]
    pair(onnx, f"aten::{name}", getattr(weft, base), cast, _HOSTS.get(base))


for _onnx, _weft in (
    ("Abs", "abs"), ("Acos", "acos"), ("Acosh", "acosh"), ("Asin", "asin"), ("Asinh", "asinh"), ("Atan", "atan"),
    ("Atanh", "atanh"), ("Ceil", "ceil"), ("Cos", "cos"), ("Cosh", "cosh"), ("Erf", "erf"), ("Exp", "exp"),
    ("Floor", "floor"), ("Log", "log"), ("Neg", "neg"), ("Reciprocal", "reciprocal"), ("Relu", "relu"),
    ("Round", "round"), ("Sigmoid", "sigmoid"), ("Sign", "sign"), ("Sin", "sin"), ("Sinh", "sinh"), ("Sqrt", "sqrt"),
    ("Tan", "tan"), ("Tanh", "tanh"),
):  # fmt: skip
    _same(_onnx, _weft)
for _onnx, _weft in (
    ("Equal", "eq.Tensor"), ("Greater", "gt.Tensor"), ("Less", "lt.Tensor"), ("GreaterOrEqual", "ge.Tensor"),
    ("LessOrEqual", "le.Tensor"),
):  # fmt: skip
    _same(_onnx, _weft, "inputs")
for _onnx, _weft in (("And", "logical_and"), ("Or", "logical_or"), ("Xor", "logical_xor"), ("Not", "logical_not")):
    _same(_onnx, _weft, "bool")
_same("IsNaN", "isnan", "float")
for _onnx in ("Not", "And", "Or", "Xor"):  # weft's bitwise operators take bools too, ONNX's do not
    _weft = f"bitwise_{_onnx.lower()}"
    _same(f"Bitwise{_onnx}", _weft if _onnx == "Not" else f"{_weft}.Tensor")


@symbolic("aten::bitwise_not", "aten::bitwise_and.Tensor", "aten::bitwise_or.Tensor", "aten::bitwise_xor.Tensor")
def write_bitwise(g: Any, *arguments: Any) -> Any:
    name = g.node.op.schema.base.partition("_")[2].capitalize()
    return g.op(name if g.result_dtype() is weft.bool else f"Bitwise{name}", *g.promoted(arguments))


pair("Mul", "aten::mul.Tensor", lambda a, b: a * b, on_host=lambda a, b: a * b)


# ---- arithmetic
@operator("Add", on_host=lambda a, b: a + b)
def add(a: Tensor, b: Tensor) -> Tensor:
    return a + b


@symbolic("aten::add.Tensor")
def write_add(g: Any, a: Any, b: Any, alpha: Any) -> Any:
    a, b, alpha = g.promoted((a, b, alpha))
    return g.op("Add", a, b if g.known(alpha) == 1 else g.op("Mul", b, alpha))


@operator("Sub", on_host=lambda a, b: a - b)
def sub(a: Tensor, b: Tensor) -> Tensor:
    return a - b


@symbolic("aten::sub.Tensor")
def write_sub(g: Any, a: Any, b: Any, alpha: Any) -> Any:
    a, b, alpha = g.promoted((a, b, alpha))
    return g.op("Sub", a, b if g.known(alpha) == 1 else g.op("Mul", b, alpha))


@symbolic("aten::rsub.Tensor")
def write_rsub(g: Any, a: Any, b: Any, alpha: Any) -> Any:
    return write_sub(g, b, a, alpha)


def _divided(a: Any, b: Any) -> Any:
    """Division towards zero, on integers and on sizes."""
    a, b = np.broadcast_arrays(a, b)
    if a.dtype.kind == "f":
        return a / b
    if a.dtype != object:
        return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    quotients = [x // y for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)]  # sizes are not negative
    return objects(quotients).reshape(a.shape)


@operator("Div", on_host=_divided)
def div(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.dtype.is_floating_point or a.dtype.is_complex else weft.div(a, b, rounding_mode="trunc")


@symbolic("aten::div.Tensor", "aten::true_divide.Tensor")
def write_div(g: Any, a: Any, b: Any) -> Any:
    return g.op("Div", *g.promoted((a, b)))


@symbolic("aten::div.Tensor_mode", "aten::floor_divide")
def write_div_mode(g: Any, a: Any, b: Any, rounding_mode: Any = "floor") -> Any:
    mode = g.known(rounding_mode)
    a, b = g.promoted((a, b))
    quotient = g.op("Div", a, b)
    if mode is None:
        return quotient
    if g.dtype(a).is_floating_point:
        return exact.floored_quotient(g, a, b) if mode == "floor" else truncated(g, quotient)
    if mode == "trunc":
        return quotient
    # ONNX divides integers towards zero: one less where signs differ and something is left
    left = g.op("Mod", a, b)
    return g.op("Div", g.op("Sub", a, left), b)


def truncated(g: Any, x: Any) -> Any:
    """Towards zero."""
    return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Abs", x)))


@symbolic("aten::trunc", "aten::fix")
def write_trunc(g: Any, x: Any) -> Any:
    return truncated(g, x) if g.dtype(x).is_floating_point else x


@symbolic("aten::frac")
def write_frac(g: Any, x: Any) -> Any:
    return g.op("Sub", x, truncated(g, x))


@operator("Mod", on_host=lambda a, b, fmod=0: np.fmod(a, b) if fmod else a % b)
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    return weft.fmod(a, b) if fmod else weft.remainder(a, b)


@symbolic("aten::fmod.Tensor")
def write_fmod(g: Any, a: Any, b: Any) -> Any:
    return g.op("Mod", *g.promoted((a, b)), fmod=1)


@symbolic("aten::remainder.Tensor")
def write_remainder(g: Any, a: Any, b: Any) -> Any:
    a, b = g.promoted((a, b))
    if not g.dtype(a).is_floating_point:
        return g.op("Mod", a, b)
    return exact.remainder(g, a, b)


@operator("Pow")
def pow(x: Tensor, exponent: Tensor) -> Tensor:
    if x.dtype.is_floating_point or not exponent.dtype.is_floating_point:
        return weft.pow(x, exponent).to(x.dtype)
    return weft.pow(x.to(exponent.dtype), exponent).to(x.dtype)


@symbolic("aten::pow.Tensor_Tensor", "aten::pow.Tensor_Scalar", "aten::pow.Scalar")
def write_pow(g: Any, a: Any, b: Any) -> Any:
    return g.op("Pow", *g.promoted((a, b)))


@symbolic("aten::square")
def write_square(g: Any, x: Any) -> Any:
    return g.op("Mul", x, x)


@symbolic("aten::rsqrt")
def write_rsqrt(g: Any, x: Any) -> Any:
    return g.op("Reciprocal", g.op("Sqrt", *g.promoted((x,))))


# ---- several operands
def _on_all(name: str, function: Any, host: Any = None) -> None:
    def run(*inputs: Tensor) -> Tensor:
        return reduce(function, inputs)

    operator(name, on_host=None if host is None else lambda *arrays: reduce(host, arrays))(run)


_on_all("Max", lambda a, b: weft.maximum(a, b), np.maximum)
_on_all("Min", lambda a, b: weft.minimum(a, b), np.minimum)
_on_all("Sum", lambda a, b: a + b)


@operator("Mean")
def mean(*inputs: Tensor) -> Tensor:
    return reduce(lambda a, b: a + b, inputs) / len(inputs)


@symbolic("aten::maximum", "aten::max.other")
def write_maximum(g: Any, a: Any, b: Any) -> Any:
    return g.op("Max", *g.promoted((a, b)))


@symbolic("aten::minimum", "aten::min.other")
def write_minimum(g: Any, a: Any, b: Any) -> Any:
    return g.op("Min", *g.promoted((a, b)))


@operator("Clip")
def clip(
    x: Tensor, least: Tensor | None = None, most: Tensor | None = None, *, min: float | None = None,
    max: float | None = None,
) -> Tensor:
    low, high = least if least is not None else min, most if most is not None else max
    if low is not None:
        x = weft.maximum(x, low) if isinstance(low, Tensor) else weft.clamp(x, min=low)
    if high is not None:
        x = weft.minimum(x, high) if isinstance(high, Tensor) else weft.clamp(x, max=high)
    return x


@symbolic("aten::clamp", "aten::clip", "aten::clamp.Tensor", "aten::clip.Tensor", "aten::hardtanh")
def write_clamp(g: Any, x: Any, low: Any, high: Any) -> Any:
    x, low, high = g.promoted((x, low, high))
    if low is not None and g.ndim(low):
        x, low = g.op("Max", x, low), None
    if high is not None and g.ndim(high):
        x, high = g.op("Min", x, high), None
    return x if low is None and high is None else g.op("Clip", x, low, high)


@symbolic("aten::clamp_min")
def write_clamp_min(g: Any, x: Any, low: Any) -> Any:
    return write_clamp(g, x, low, None)


@symbolic("aten::clamp_max")
def write_clamp_max(g: Any, x: Any, high: Any) -> Any:
    return write_clamp(g, x, None, high)


# ---- choices and questions
@operator("Where", on_host=lambda c, a, b: np.where(c, a, b))
def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return weft.where(condition, a, b)


@symbolic("aten::where.self")
def write_where(g: Any, condition: Any, a: Any, b: Any) -> Any:
    return g.op("Where", g.cast(condition, weft.bool), *g.promoted((a, b)))


@symbolic("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def write_masked_fill(g: Any, x: Any, mask: Any, value: Any) -> Any:
    return g.op("Where", g.cast(mask, weft.bool), *g.promoted((value, x)))


@symbolic("aten::ne.Tensor")
def write_ne(g: Any, a: Any, b: Any) -> Any:
    return g.op("Not", g.op("Equal", *g.promoted((a, b), "inputs")))


@operator("IsInf")
def isinf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if detect_negative and detect_positive:
        return weft.isinf(x)
    if detect_negative:
        return weft.isneginf(x)
    return weft.isposinf(x) if detect_positive else weft.zeros_like(x, dtype=weft.bool)


@symbolic("aten::isinf")
def write_isinf(g: Any, x: Any) -> Any:
    return g.op("IsInf", x)


@symbolic("aten::isfinite")
def write_isfinite(g: Any, x: Any) -> Any:
    return g.op("Not", g.op("Or", g.op("IsInf", x), g.op("IsNaN", x)))


@operator("BitShift")
def bitshift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    return weft.bitwise_left_shift(a, b) if direction == "LEFT" else weft.bitwise_right_shift(a, b)


# ---- dtypes
def _host_cast(x: Any, *, to: int, **others: Any) -> Known:
    dtype = dtype_of(to)
    if x.dtype == object and dtype in (weft.int32, weft.int64):
        return Known(x, dtype)
    if x.dtype == object:
        raise Unsupported("onnx: Cast of sizes that are symbols to another dtype than an integer's")
    return Known(x.astype(dtype.numpy), dtype)


@operator("Cast")
def cast(x: Either, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    dtype = dtype_of(to)
    if isinstance(x, Known):
        kept = x.folds and (x.array.dtype != object or dtype in (weft.int32, weft.int64))
        if kept:
            return _host_cast(x.array, to=to)
        x = x.tensor()
    return x.to(dtype)


@operator("CastLike")
def cast_like(x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return x.to(like.dtype)


@operator("BitCast")
def bit_cast(x: Tensor, *, to: int) -> Tensor:
    return x.view(dtype_of(to))


@symbolic("aten::_to_copy", "aten::to.dtype")
def write_cast(g: Any, x: Any, dtype: Any, *others: Any) -> Any:
    wanted = g.known(dtype)
    return x if wanted is None else g.cast(x, wanted)


@symbolic("aten::to.other", "aten::type_as")
def write_cast_like(g: Any, x: Any, other: Any, *others: Any) -> Any:
    return g.cast(x, g.dtype(other))


def _to(dtype: DType) -> Any:
    return lambda g, x, *others: g.cast(x, dtype)


for _name, _dtype in (
    ("float", weft.float32), ("double", weft.float64), ("half", weft.float16), ("bfloat16", weft.bfloat16),
    ("int", weft.int32), ("long", weft.int64), ("short", weft.int16), ("char", weft.int8), ("byte", weft.uint8),
    ("bool", weft.bool),
):  # fmt: skip
    symbolic(f"aten::{_name}")(_to(_dtype))


@operator("Identity")
def identity(x: Either) -> Any:
    return x


@symbolic("aten::clone", "aten::detach", "aten::alias", "aten::contiguous", "aten::positive", "aten::_contiguous_copy",
          "aten::conj_physical", "aten::cpu")  # fmt: skip
def write_identity(g: Any, x: Any, *others: Any) -> Any:
    return x


