"""Functions element by element that ONNX has no operator for, written with those that it has."""

from __future__ import annotations

import math
from typing import Any

import weft
import weft.onnx.exact as exact
from weft.onnx.registry import symbolic


@symbolic("aten::log1p")
def write_log1p(g: Any, x: Any) -> Any:
    return exact.log1p(g, g.result_cast(x))


@symbolic("aten::expm1")
def write_expm1(g: Any, x: Any) -> Any:
    return exact.expm1(g, g.result_cast(x))


@symbolic("aten::log2", "aten::log10")
def write_log2(g: Any, x: Any) -> Any:
    x, base = g.result_cast(x), 2 if g.node.op.schema.base == "log2" else 10
    return g.op("Div", g.op("Log", x), g.like(x, math.log(base)))


@symbolic("aten::exp2")
def write_exp2(g: Any, x: Any) -> Any:
    x = g.result_cast(x)
    return g.op("Pow", g.like(x, 2), x)


@symbolic("aten::erfc")
def write_erfc(g: Any, x: Any) -> Any:
    x = g.result_cast(x)
    return g.op("Sub", g.like(x, 1), g.op("Erf", x))


@symbolic("aten::deg2rad", "aten::rad2deg")
def write_deg2rad(g: Any, x: Any) -> Any:
    x, factor = g.result_cast(x), math.pi / 180
    return g.op("Mul", x, g.like(x, factor if g.node.op.schema.base == "deg2rad" else 1 / factor))


@symbolic("aten::hypot")
def write_hypot(g: Any, a: Any, b: Any) -> Any:
    a, b = g.promoted((a, b))
    return g.op("Sqrt", g.op("Add", g.op("Mul", a, a), g.op("Mul", b, b)))


@symbolic("aten::atan2")
def write_atan2(g: Any, y: Any, x: Any) -> Any:
    return exact.atan2(g, *g.promoted((y, x)))


@symbolic("aten::logaddexp", "aten::logaddexp2")
def write_logaddexp(g: Any, a: Any, b: Any) -> Any:
    a, b = g.promoted((a, b))
    unit = g.like(a, math.log(2)) if g.node.op.schema.base == "logaddexp2" else None
    gap = g.op("Neg", g.op("Abs", g.op("Sub", a, b)))
    gap = g.op("Where", g.op("Equal", a, b), g.like(a, 0), gap)  # of infinities, too
    gap = gap if unit is None else g.op("Mul", gap, unit)
    more = g.op("Log", g.op("Add", g.like(a, 1), g.op("Exp", gap)))
    return g.op("Add", g.op("Max", a, b), more if unit is None else g.op("Div", more, unit))


@symbolic("aten::xlogy.Tensor")
def write_xlogy(g: Any, x: Any, y: Any) -> Any:
    x, y = g.promoted((x, y))
    return g.op("Where", g.op("Equal", x, g.like(x, 0)), g.like(x, 0), g.op("Mul", x, g.op("Log", y)))


@symbolic("aten::logit")
def write_logit(g: Any, x: Any, eps: Any = None) -> Any:
    x = g.result_cast(x)
    if g.known(eps) is not None:
        x = g.op("Clip", x, g.like(x, g.known(eps)), g.like(x, 1 - g.known(eps)))
    return g.op("Log", g.op("Div", x, g.op("Sub", g.like(x, 1), x)))


@symbolic("aten::sinc")
def write_sinc(g: Any, x: Any) -> Any:
    angle = g.op("Mul", g.result_cast(x), g.like(g.result_cast(x), math.pi))
    zero = g.op("Equal", angle, g.like(angle, 0))
    return g.op("Where", zero, g.like(angle, 1), g.op("Div", g.op("Sin", angle), angle))


@symbolic("aten::sgn")
def write_sgn(g: Any, x: Any) -> Any:
    return g.op("Sign", x)


@symbolic("aten::heaviside")
def write_heaviside(g: Any, x: Any, values: Any) -> Any:
    x, values = g.promoted((x, values))
    positive = g.cast(g.op("Greater", x, g.like(x, 0)), g.dtype(x))
    return g.op("Where", g.op("Equal", x, g.like(x, 0)), values, positive)


@symbolic("aten::isposinf", "aten::isneginf")
def write_isposinf(g: Any, x: Any) -> Any:
    positive = g.node.op.schema.base == "isposinf"
    return g.op("IsInf", x, detect_positive=int(positive), detect_negative=int(not positive))


@symbolic("aten::isclose")
def write_isclose(g: Any, a: Any, b: Any, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    g.require(not g.known(equal_nan) and g.dtype(a).is_floating_point, "isclose of integers, or with equal_nan")
    allowed = g.op("Add", g.like(a, g.known(atol)), g.op("Mul", g.like(a, g.known(rtol)), g.op("Abs", b)))
    near = g.op("LessOrEqual", g.op("Abs", g.op("Sub", a, b)), allowed)
    return g.op("Or", g.op("Equal", a, b), near)


@symbolic("aten::round.decimals")
def write_round(g: Any, x: Any, decimals: Any) -> Any:
    scale = g.like(x, 10.0 ** g.known(decimals))
    return g.op("Div", g.op("Round", g.op("Mul", x, scale)), scale)


@symbolic("aten::copysign.Tensor")
def write_copysign(g: Any, x: Any, y: Any) -> Any:
    return exact.copysign(g, *g.promoted((x, y)))


@symbolic("aten::signbit")
def write_signbit(g: Any, x: Any) -> Any:
    dtype = g.dtype(x)
    if not dtype.is_floating_point:
        x = g.cast(x, weft.int64)  # (ONNX compares no booleans)
        return g.op("Less", x, g.like(x, 0))
    return exact.is_negative(g, x)


@symbolic("aten::fmax", "aten::fmin")
def write_fmax(g: Any, a: Any, b: Any) -> Any:
    """The larger number of two; where one is NaN, the other."""
    a, b = g.promoted((a, b))
    better = g.op("Greater" if g.node.op.schema.base == "fmax" else "Less", b, a)
    if g.dtype(a).is_floating_point:
        better = g.op("Or", better, g.op("IsNaN", a))
    return g.op("Where", better, b, a)


@symbolic("aten::_euclidean_dist")
def write_distances(g: Any, x1: Any, x2: Any) -> Any:
    """From every row of x1 [..., n, d] to every row of x2 [..., m, d]: [..., n, m]."""
    difference = g.op("Sub", g.op("Unsqueeze", x1, g.ints([-2])), g.op("Unsqueeze", x2, g.ints([-3])))
    return g.op("Sqrt", g.op("ReduceSum", g.op("Mul", difference, difference), g.ints([-1]), keepdims=0))


@symbolic("aten::bitwise_left_shift.Tensor", "aten::bitwise_right_shift.Tensor")
def write_shift(g: Any, a: Any, b: Any) -> Any:
    """BitShift has unsigned integers only: products and quotients of powers of two."""
    a, b = g.promoted((a, b))
    power = g.op("Pow", g.like(a, 2), b)
    left = g.node.op.schema.base == "bitwise_left_shift"
    return g.op("Mul", a, power) if left else g.op("Div", g.op("Sub", a, g.op("Mod", a, power)), power)
