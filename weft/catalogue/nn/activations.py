"""Activations: relu and its kin, gelu, silu, softplus, softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.catalogue.families import is_one, pointwise
from weft.catalogue.samples import F, case, draw
from weft.catalogue.widening import widened
from weft.ops.layout import ROW_MAJOR
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise, normalize_dim
from weft.support.errors import DTypeError, ShapeError, StateError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

_F = ("nn.functional",)


def _is_float(dtype: DType) -> bool:
    return dtype.is_floating_point


def _is_real_number(dtype: DType) -> bool:
    return dtype in (dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64) or dtype.is_floating_point


def _float_only(schema: str, doc: str, **fields: Any) -> Any:
    return pointwise(
        schema, doc, accepts=_is_float, wants="floating point tensors", **{"numbers": False, "public": _F, **fields}
    )


def _number(s: Any, value: float, like: Any) -> Any:
    return s.const(value, s.dtype(like))


# ---- piecewise linear

relu = pointwise(
    "aten::relu(Tensor self) -> Tensor",
    "max(x, 0).",
    scalar=lambda s, x: s.maximum(x, _number(s, 0, x)),
    accepts=_is_real_number,
    wants="real numbers",
    numbers=False,
    vjp={"self": lambda g, result: aten.where(result <= 0, 0, g)},
    public=("weft", "Tensor", "nn.functional"),
    reference=lambda x: np.maximum(x, 0),
    samples=draw(case(F(3, 4)), case(F())),
)


def _between(s: Any, x: Any, low: Any, high: Any) -> Any:
    return s.minimum(s.maximum(x, low), high)


relu6 = pointwise(
    "aten::relu6(Tensor self) -> Tensor",
    "min(max(x, 0), 6).",
    node="HardtanhBackward0.relu6",
    scalar=lambda s, x: _between(s, x, _number(s, 0, x), _number(s, 6, x)),
    accepts=_is_real_number,
    wants="real numbers",
    numbers=False,
    vjp={"self": lambda g, self: aten.where(aten.logical_or(self <= 0, self >= 6), 0, g)},
    public=_F,
    samples=draw(case(F(3, 4)), case(F())),
    reference=lambda x: np.clip(x, 0, 6),
)

hardtanh = pointwise(
    "aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    "x clamped to [min_val, max_val].",
    scalar=lambda s, x, low, high: _between(
        s, x, _number(s, -1, x) if low is None else low, _number(s, 1, x) if high is None else high
    ),
    over=("self",),
    accepts=_is_real_number,
    wants="real numbers",
    numbers=False,
    vjp={"self": lambda g, self, min_val, max_val: aten.where(
        aten.logical_or(self <= min_val, self >= max_val), 0, g
    )},
    public=_F,
    samples=draw(case(F(3, 4)), case(F(3), -0.5, 0.25)),
    reference=lambda x, low, high: np.clip(x, low, high),
)

threshold = pointwise(
    "aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    "x where it exceeds the threshold, else `value`.",
    inplace_node="ThresholdBackward1",
    scalar=lambda s, x, threshold, value: s.where(s.le(x, threshold), value, x),
    over=("self",),
    accepts=_is_real_number,
    wants="real numbers",
    numbers=False,
    vjp={"self": lambda g, self, threshold: aten.where(self <= threshold, 0, g)},
    public=("weft", "nn.functional"),
    samples=draw(case(F(3, 4), 0.3, -1.0)),
    reference=lambda x, t, v: np.where(x > t, x, v),
)

leaky_relu = _float_only(
    "aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    "x where positive, else negative_slope * x.",
    inplace_node="LeakyReluBackward1",
    scalar=lambda s, x, slope: s.where(
        s.gt(x, _number(s, 0, x)), x, s.mul(x, _number(s, 0.01, x) if slope is None else slope)
    ),
    over=("self",),
    vjp={"self": lambda g, self, negative_slope: aten.where(self > 0, g, g * negative_slope)},
    samples=draw(case(F(3, 4)), case(F(3), 0.2)),
    reference=lambda x, slope: np.where(x > 0, x, x * slope),
)

hardsigmoid = _float_only(
    "aten::hardsigmoid(Tensor self) -> Tensor",
    "min(max(x + 3, 0), 6) / 6.",
    scalar=lambda s, x: s.div(
        _between(s, s.add(x, _number(s, 3, x)), _number(s, 0, x), _number(s, 6, x)), _number(s, 6, x)
    ),
    vjp={"self": lambda g, self: aten.where(aten.logical_and(self > -3, self < 3), g * (1 / 6), 0)},
    samples=draw(case(F(3, 4)), case(F())),
    reference=lambda x: np.clip(x + 3, 0, 6) / 6,
)

hardswish = _float_only(
    "aten::hardswish(Tensor self) -> Tensor",
    "x * min(max(x + 3, 0), 6) / 6.",
    scalar=lambda s, x: s.div(
        s.mul(x, _between(s, s.add(x, _number(s, 3, x)), _number(s, 0, x), _number(s, 6, x))), _number(s, 6, x)
    ),
    vjp={
        "self": lambda g, self: aten.where(self <= -3, 0, aten.where(self < 3, g * (self / 3 + 0.5), g)),
    },
    samples=draw(case(F(3, 4)), case(F())),
    reference=lambda x: x * np.clip(x + 3, 0, 6) / 6,
)


def _prelu(self: Any, weight: Any) -> Any:
    if self.dtype is not weight.dtype:
        raise DTypeError(f"prelu: Type promoting not supported. Got {self.dtype} and {weight.dtype}")
    if weight.ndim > 1:
        raise ShapeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.ndim == 1 and self.ndim >= 2:
        weight = aten.reshape(weight, tuple(weight.dims[0] if i == 1 else 1 for i in range(self.ndim)))
    elif weight.ndim == 1:
        weight = aten.reshape(weight, ()) if self.ndim == 0 else weight
    return aten._prelu_kernel(self, weight)


_float_only(
    "aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
    "x where positive, else weight * x.",
    scalar=lambda s, x, w: s.where(s.gt(x, _number(s, 0, x)), x, s.mul(x, w)),
    vjp={
        "self": lambda g, self, weight: aten.where(self > 0, g, g * weight),
        "weight": lambda g, self: g * aten.where(self > 0, 0, self),
    },
    public=(),
    inplace=False,
    samples=draw(case(F(3, 4), F(4))),
)
define(
    "aten::prelu(Tensor self, Tensor weight) -> Tensor",
    "x where positive, else weight * x; one weight, or one for each channel (dim 1).",
    precision="lower",
    decompose=_prelu,
    public=("weft", "Tensor", "nn.functional"),
    samples=draw(case(F(2, 3, 2), F(3)), case(F(3), F(1))),
)

# ---- smooth


def _elu(s: Any, x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    inner = x if input_scale is None else s.mul(x, input_scale)
    below = s.expm1(inner)
    below = below if alpha is None else s.mul(alpha, below)
    out = s.where(s.gt(x, _number(s, 0, x)), x, below)
    return out if scale is None else s.mul(scale, out)


def _elu_back(g: Any, self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    inner = self if is_one(input_scale) else self * input_scale
    # of negative numbers alone: at 0, and of NaN, the gradient of this is 0, and infinity times 0 would be NaN in it
    slope = aten.exp(aten.where(self < 0, inner, 0)) * (alpha * input_scale)
    out = aten.where(self <= 0, g * slope, g)
    return out if is_one(scale) else out * scale


elu = _float_only(
    "aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    "scale * (x where positive, else alpha * (exp(input_scale * x) - 1)).",
    inplace_node="EluBackward1",
    scalar=_elu,
    over=("self",),
    vjp={"self": _elu_back},
    samples=draw(case(F(3, 4)), case(F(3), 0.7, 1.2, 0.5)),
)
define(
    "aten::selu(Tensor self) -> Tensor", "elu with the constants that keep mean 0 and variance 1.",
    decompose=lambda self: aten.elu(self, 1.6732632423543772, 1.0507009873554805), public=("weft", "nn.functional"),
    inplace=True,
)


def _celu_type(self: TensorType, alpha: Any) -> TensorType:
    if type(alpha) in (int, float) and alpha == 0:
        raise StateError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return elu.type(self, alpha, 1, 1)  # type: ignore[no-any-return]


define("aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor", "x where positive, else alpha * (exp(x / alpha) - 1).",
       type=_celu_type,
       decompose=lambda self, alpha: aten.elu(self, alpha, 1, 1 / alpha), public=("weft", "nn.functional"),
       vjp={"self": lambda g, self, alpha: _elu_back(g, self, alpha, 1, 1 / alpha)},
       inplace=True)

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBE = 0.044715


def _gelu(s: Any, x: Any, approximate: str) -> Any:
    half = s.mul(x, _number(s, 0.5, x))
    if approximate == "tanh":
        cube = s.mul(s.mul(x, x), x)
        inner = s.mul(_number(s, _SQRT_2_OVER_PI, x), s.add(x, s.mul(_number(s, _CUBE, x), cube)))
        return s.mul(half, s.add(_number(s, 1, x), s.tanh(inner)))
    return s.mul(half, s.add(_number(s, 1, x), s.erf(s.mul(x, _number(s, _SQRT_HALF, x)))))


def _gelu_back(g: Any, self: Any, approximate: str) -> Any:
    x = widened(self)
    if approximate == "tanh":
        square = x * x
        inner = aten.tanh(x * (square * (_CUBE * _SQRT_2_OVER_PI) + _SQRT_2_OVER_PI))
        left = inner * 0.5 + 0.5
        slope = square * (3 * _CUBE * _SQRT_2_OVER_PI) + _SQRT_2_OVER_PI
        return g * (left + x * (1 - inner * inner) * slope * 0.5)
    below = aten.erf(x * _SQRT_HALF) * 0.5 + 0.5
    density = aten.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * (below + x * density)


class _Gelu(Pointwise):
    """A float dtype, and one of two formulas."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        if args[1] not in ("none", "tanh"):
            raise ShapeError("approximate argument must be either none or tanh.")
        return super().compute_dtype(args)


gelu = _float_only(
    'aten::gelu(Tensor self, *, str approximate="none") -> Tensor',
    "x times the normal distribution's probability below x; with approximate 'tanh', by a formula with tanh.",
    scalar=_gelu,
    rule=_Gelu,
    vjp={"self": _gelu_back},
    samples=draw(case(F(3, 4)), case(F(3), approximate="tanh")),
)


def _silu_back(g: Any, self: Any) -> Any:
    x = widened(self)
    below = aten.sigmoid(x)
    slope = below * (x * (1 - below) + 1)
    return g * (aten.conj(slope) if x.dtype.is_complex else slope)


silu = pointwise(
    "aten::silu(Tensor self) -> Tensor",
    "x * sigmoid(x).",
    scalar=lambda s, x: s.mul(x, s.sigmoid(x)),
    accepts=lambda d: d.is_differentiable,
    wants="floating point or complex tensors",
    numbers=False,
    public=_F,
    vjp={"self": _silu_back},
    samples=draw(case(F(3, 4)), case(F())),
    reference=lambda x: x / (1 + np.exp(-x)),
)


def _softplus(s: Any, x: Any, beta: Any, threshold: Any) -> Any:
    scaled = x if beta is None else s.mul(x, beta)
    smooth = s.log1p(s.exp(scaled))
    smooth = smooth if beta is None else s.div(smooth, beta)
    return s.where(s.gt(scaled, _number(s, 20, x) if threshold is None else threshold), x, smooth)


def _softplus_back(g: Any, self: Any, beta: Any, threshold: Any) -> Any:
    inner = self if is_one(beta) else self * beta
    return aten.where(inner > threshold, g, g * aten.sigmoid(inner))


softplus = _float_only(
    "aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    "log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds the threshold.",
    scalar=_softplus,
    over=("self",),
    vjp={"self": _softplus_back},
    samples=draw(case(F(3, 4)), case(F(3), 2, 1.0)),
)


def _log_sigmoid(s: Any, x: Any) -> Any:
    return s.sub(s.minimum(x, _number(s, 0, x)), s.log1p(s.exp(s.neg(s.abs(x)))))


log_sigmoid = _float_only(
    "aten::log_sigmoid(Tensor self) -> Tensor",
    "log(sigmoid(x)), exact for large |x|.",
    scalar=_log_sigmoid,
    vjp={"self": lambda g, self: g * aten.sigmoid(-self)},
    public=(),
    samples=draw(case(F(3, 4)), case(F())),
    reference=lambda x: -np.log1p(np.exp(-x)),
)
define("aten::logsigmoid(Tensor self) -> Tensor", "log(sigmoid(x)), exact for large |x|.",
       decompose=lambda self: aten.log_sigmoid(self), lies=ROW_MAJOR, public=_F, out=True)


def _softplus_stable(s: Any, x: Any) -> Any:
    return s.sub(s.maximum(x, _number(s, 0, x)), s.neg(s.log1p(s.exp(s.neg(s.abs(x))))))


def _mish_back(g: Any, self: Any) -> Any:
    x = widened(self)
    gate = aten.tanh(-aten.log_sigmoid(-x))
    return g * (gate + x * aten.sigmoid(x) * (1 - gate * gate))


mish = _float_only(
    "aten::mish(Tensor self) -> Tensor",
    "x * tanh(softplus(x)).",
    scalar=lambda s, x: s.mul(x, s.tanh(_softplus_stable(s, x))),
    vjp={"self": _mish_back},
    samples=draw(case(F(3, 4)), case(F())),
    reference=lambda x: x * np.tanh(np.log1p(np.exp(x))),
)

define(
    "aten::softsign(Tensor self) -> Tensor", "x / (1 + |x|).",
    decompose=lambda self: self / (aten.abs(self) + 1), public=_F,
)


def _glu(self: Any, dim: int) -> Any:
    if self.ndim == 0:
        raise ShapeError("glu does not support 0-dimensional tensors")
    at = normalize_dim("glu", dim, self.ndim)
    size = self.dims[at]
    half = dm.floordiv(size, 2)
    if not shape_env.equal(half * 2, size):
        raise ShapeError(f"Halving dimension must be even, but dimension {at} is size {size}")
    a, b = aten.split_with_sizes(self, (half, half), at)
    return a * aten.sigmoid(b)


define(
    "aten::glu(Tensor self, int dim=-1) -> Tensor", "The first half of a dim times the sigmoid of the second half.",
    decompose=_glu, public=_F, out=Out("castable"), samples=draw(case(F(2, 4)), case(F(4, 3), 0)),
)
