"""Pointwise arithmetic: sums, products, quotients, remainders, signs, interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.families import alias, conjugate, pointwise, scaled
from weft.ops.op import NOT_DIFFERENTIABLE, NodeBy, Out, define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise, is_real, kind_of_number
from weft.support.errors import DTypeError, StateError
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType


def _is_integer(s: Any, x: Any) -> bool:
    return bool(s.dtype(x).category <= dt.INT)


def guarded(s: Any, divide: Any, x: Any, y: Any) -> Any:
    """An integer division that gives 0 where the divisor is 0 (native division would trap); floats follow IEEE."""
    if not _is_integer(s, x):
        return divide(x, y)
    zero, one = s.const(0, s.dtype(y)), s.const(1, s.dtype(y))
    by_zero = s.eq(y, zero)
    return s.where(by_zero, zero, divide(x, s.where(by_zero, one, y)))


class _WithFactor(Pointwise):
    """The rule of sums with a factor, which is no float where the operands are integers."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        joined, factor = super().compute_dtype(args), args[-1]
        if kind_of_number(factor) is float and joined.category <= dt.INT:
            raise DTypeError(
                f"{self.schema.base}: For integral input tensors, argument {self.schema.arguments[-1].name} must not "
                "be a floating point number."
            )
        return joined


class _Scaled(_WithFactor):
    """The same, and the factor is a truth value of truth values only."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        joined, factor = super().compute_dtype(args), args[-1]
        if type(factor) is bool and joined is not dt.bool_:
            raise DTypeError(
                f"{self.schema.base}: Boolean {self.schema.arguments[-1].name} only supported for Boolean results."
            )
        return joined


class _NoBool(_Scaled):
    """Subtraction's rule: bool is refused, with PyTorch's advice."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        joined = super().compute_dtype(args)
        if any(type(a) is bool or (isinstance(a, TensorType) and a.dtype is dt.bool_) for a in args[:2]):
            raise DTypeError(
                f"{self.schema.base}: Subtraction, the `-` operator, with a bool tensor is not supported. "
                "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
            )
        return joined


add = pointwise(
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "Sum, element by element: self + alpha * other.",
    scalar=lambda s, a, b, alpha: s.add(a, b if alpha is None else s.mul(alpha, b)),
    over=("self", "other"),
    rule=_Scaled,
    number_first=True,
    numbers_alone=True,
    vjp={"self": lambda g: g, "other": lambda g, alpha: scaled(g, conjugate(alpha))},
    reference=lambda a, b, alpha: a + alpha * b,
)

sub = pointwise(
    "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "Difference, element by element: self - alpha * other.",
    scalar=lambda s, a, b, alpha: s.sub(a, b if alpha is None else s.mul(alpha, b)),
    over=("self", "other"),
    rule=_NoBool,
    number_first=True,
    numbers_alone=True,
    vjp={"self": lambda g: g, "other": lambda g, alpha: -scaled(g, conjugate(alpha))},
    reference=lambda a, b, alpha: a - alpha * b,
)

rsub = pointwise(
    "aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "Difference the other way round: other - alpha * self.",
    node=NodeBy("other", "RsubBackward1", "RsubBackward0"),
    scalar=lambda s, a, b, alpha: s.sub(b, a if alpha is None else s.mul(alpha, a)),
    over=("self", "other"),
    rule=_NoBool,
    inplace=False,
    vjp={"self": lambda g, alpha: -scaled(g, conjugate(alpha)), "other": lambda g: g},
    reference=lambda a, b, alpha: b - alpha * a,
)

mul = pointwise(
    "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor",
    "Product, element by element.",
    scalar=lambda s, a, b: s.mul(a, b),
    number_first=True,
    numbers_alone=True,
    vjp={"self": lambda g, other: g * conjugate(other), "other": lambda g, self: g * conjugate(self)},
    reference=np.multiply,
)

div = pointwise(
    "aten::div.Tensor(Tensor self, Tensor other) -> Tensor",
    "Quotient, element by element; integers divide as floats.",
    scalar=lambda s, a, b: s.div(a, b),
    compute="float",
    number_first=True,
    numbers_alone=True,
    vjp={
        "self": lambda g, other: g / conjugate(other),
        "other": lambda g, self, other: -g * conjugate((self / other) / other),
    },
    reference=np.true_divide,
)

_ROUNDING = ("trunc", "floor")


class _RoundedDivision(Pointwise):
    """div with a rounding mode: without one integers divide as floats, with one they stay integers."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        mode, joined = args[2], super().compute_dtype(args)
        if mode is None:
            return joined if joined.is_differentiable else dt.get_default()
        if mode not in _ROUNDING:
            raise StateError(
                f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'")
        if joined.is_complex:
            raise DTypeError(f"div: rounding_mode='{mode}' does not support complex tensors, got {joined}")
        return joined


def _rounded_quotient(s: Any, a: Any, b: Any, mode: str | None) -> Any:
    if mode is None:
        return s.div(a, b)
    return guarded(s, s.floordiv if mode == "floor" else s.truncdiv, a, b)


def _numpy_rounded(a: Any, b: Any, mode: str | None) -> Any:
    quotient = np.true_divide(a, b)
    return quotient if mode is None else {"floor": np.floor, "trunc": np.trunc}[mode](quotient)


div_mode = pointwise(
    "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    "Quotient, rounded towards zero ('trunc'), towards -infinity ('floor') or not at all (None).",
    node="DivBackward2",
    scalar=_rounded_quotient,
    rule=_RoundedDivision,
    number_first=True,
    numbers_alone=True,
    vjp={
        "self": lambda g, other, rounding_mode: g / conjugate(other) if rounding_mode is None else aten.zeros_like(g),
        "other": lambda g, self, other, rounding_mode: (
            -g * conjugate((self / other) / other) if rounding_mode is None else aten.zeros_like(g)),
    },
    reference=_numpy_rounded,
)

floor_divide = pointwise(
    "aten::floor_divide(Tensor self, Tensor other) -> Tensor",
    "Quotient rounded towards -infinity. An integer divided by 0 gives 0.",
    scalar=lambda s, a, b: guarded(s, s.floordiv, a, b),
    accepts=is_real,
    wants="real numbers",
    number_first=True,
    numbers_alone=True,
    vjp=NOT_DIFFERENTIABLE,
    reference=lambda a, b: np.floor(np.true_divide(a, b)),
)

remainder = pointwise(
    "aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor",
    "Remainder with the sign of the divisor. An integer modulo 0 gives 0.",
    scalar=lambda s, a, b: guarded(s, s.remainder, a, b),
    node=NodeBy("other", "RemainderBackward0", "RemainderBackward1"),
    accepts=is_real,
    wants="real numbers",
    number_first=True,
    vjp={
        "self": lambda g: g,
        "other": lambda g, self, other: -g * aten.div(self, other, rounding_mode="floor"),
    },
    reference=np.remainder,
)

fmod = pointwise(
    "aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor",
    "Remainder with the sign of the dividend. An integer modulo 0 gives 0.",
    scalar=lambda s, a, b: guarded(s, s.fmod, a, b),
    node=NodeBy("other", "FmodBackward0", "FmodBackward1"),
    accepts=is_real,
    wants="real numbers",
    vjp={
        "self": lambda g: g,
        "other": lambda g, self, other: -g * aten.div(self, other, rounding_mode="trunc"),
    },
    reference=np.fmod,
)


class _Negation(Pointwise):
    """Negation's rule: bool is refused, with PyTorch's advice."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        joined = super().compute_dtype(args)
        if joined is dt.bool_:
            raise DTypeError(
                "neg: Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
                "mask, use the `~` or `logical_not()` operator instead."
            )
        return joined


neg = pointwise(
    "aten::neg(Tensor self) -> Tensor",
    "Negation.",
    scalar=lambda s, x: s.neg(x),
    rule=_Negation,
    vjp={"self": lambda g: -g},
    reference=np.negative,
)


def _positive(self: Any) -> Any:
    if self.dtype is dt.bool_:
        raise DTypeError("The `+` operator, on a bool tensor is not supported.")
    return self


positive = define(
    "aten::positive(Tensor(a) self) -> Tensor(a)",
    "The tensor itself; bool is refused.",
    decompose=_positive,
    reference=np.positive,
)

abs_ = pointwise(
    "aten::abs(Tensor self) -> Tensor",
    "Magnitude; of complex numbers, a real one. Its gradient at 0 is 0.",
    scalar=lambda s, x: s.abs(x),
    result="real",
    vjp={"self": lambda g, self: g * aten.sgn(self)},
    reference=np.abs,
    out=Out("exact", is_real=True),
)

sign = pointwise(
    "aten::sign(Tensor self) -> Tensor",
    "-1, 0 or 1.",
    scalar=lambda s, x: s.sign(x),
    accepts=is_real,
    wants="real numbers; use sgn for complex ones",
    vjp={"self": lambda g: aten.zeros_like(g)},
    reference=np.sign,
)


def _sgn_gradient(g: Any, self: Any, result: Any) -> Any:
    """d(z/|z|): the part of g across the direction of z, over |z|; 0 at 0 and for real numbers."""
    if not self.dtype.is_complex:
        return aten.zeros_like(g)
    size = aten.abs(self)
    across = g / size - aten.real(g / result) * (result / size)
    return aten.where(size == 0, 0, across)


sgn = pointwise(
    "aten::sgn(Tensor self) -> Tensor",
    "Direction: x / |x|, and 0 at 0.",
    scalar=lambda s, x: s.sign(x),
    vjp={"self": _sgn_gradient},
    reference=lambda x: np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x))),
)

square = pointwise(
    "aten::square(Tensor self) -> Tensor",
    "Each element times itself (of bool: as int64).",
    node="PowBackward0.square",
    scalar=lambda s, x: s.mul(x, x),
    compute=lambda d: dt.int64 if d is dt.bool_ else d,
    vjp={"self": lambda g, self: g * (conjugate(self) * 2)},
    reference=np.square,
)

reciprocal = pointwise(
    "aten::reciprocal(Tensor self) -> Tensor",
    "1 / x.",
    scalar=lambda s, x: s.div(s.const(1, s.dtype(x)), x),
    compute="float",
    vjp={"self": lambda g, result: -g * conjugate(result * result)},
    reference=lambda x: 1 / x,
)


lerp = pointwise(
    "aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
    "Linear interpolation: self + weight * (end - self), from whichever end is nearer.",
    node=NodeBy("weight", "LerpBackward0", "LerpBackward1"),
    scalar=lambda s, a, b, w: s.where(
        s.lt(s.abs(w), s.const(0.5, s.dtype(s.abs(w)))),
        s.add(a, s.mul(w, s.sub(b, a))), s.sub(b, s.mul(s.sub(b, a), s.sub(s.const(1, s.dtype(w)), w)))),
    accepts=lambda d: d.is_differentiable,
    wants="floats",
    vjp={
        "self": lambda g, weight: g * conjugate(1 - weight),
        "end": lambda g, weight: g * conjugate(weight),
        "weight": lambda g, self, end: g * conjugate(end - self),
    },
    reference=lambda a, b, w: a + w * (b - a),
)

addcmul = pointwise(
    "aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    "self + value * tensor1 * tensor2.",
    scalar=lambda s, x, a, b, value: s.add(x, s.mul(a if value is None else s.mul(value, a), b)),
    over=("self", "tensor1", "tensor2"),
    rule=_WithFactor,
    numbers=False,
    vjp={
        "self": lambda g: g,
        "tensor1": lambda g, tensor2, value: scaled(g * conjugate(tensor2), conjugate(value)),
        "tensor2": lambda g, tensor1, value: scaled(g * conjugate(tensor1), conjugate(value)),
    },
    reference=lambda x, a, b, value: x + value * a * b,
)

addcdiv = pointwise(
    "aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    "self + value * tensor1 / tensor2, of floats.",
    scalar=lambda s, x, a, b, value: s.add(x, s.div(a if value is None else s.mul(value, a), b)),
    over=("self", "tensor1", "tensor2"),
    accepts=lambda d: d.is_differentiable,
    wants="floats (integer division with addcdiv is not supported)",
    numbers=False,
    vjp={
        "self": lambda g: g,
        "tensor1": lambda g, tensor2, value: g * conjugate(value / tensor2),
        "tensor2": lambda g, tensor1, tensor2, value: -g * conjugate(scaled(tensor1 / (tensor2 * tensor2), value)),
    },
    reference=lambda x, a, b, value: x + value * a / b,
)

alias("aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor", div)
alias("aten::divide.Tensor(Tensor self, Tensor other) -> Tensor", div)
alias("aten::divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", div_mode)
alias("aten::multiply.Tensor(Tensor self, Tensor other) -> Tensor", mul)
alias("aten::subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", sub)
alias("aten::negative(Tensor self) -> Tensor", neg)
alias("aten::absolute(Tensor self) -> Tensor", abs_)
