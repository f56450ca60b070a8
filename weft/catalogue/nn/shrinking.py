"""Shrinking activations: hardshrink, softshrink, tanhshrink."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.samples import F, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.support.errors import ShapeError
from weft.types.dtype import DType

_F = ("nn.functional",)


def _is_float(dtype: DType) -> bool:
    return dtype.is_floating_point


def _gradient(g: Any, self: Any, lambd: Any) -> Any:
    """Zero between the bounds, and not where x is NaN: nothing is to hide it."""
    return aten.where(aten.logical_and(self <= lambd, self >= -lambd), 0, g)


def _hardshrink(s: Any, x: Any, lambd: Any) -> Any:
    lambd = s.const(0.5, s.dtype(x)) if lambd is None else lambd
    inside = s.bit_and(s.ge(x, s.neg(lambd)), s.le(x, lambd))
    return s.where(inside, s.const(0, s.dtype(x)), x)


class _Softshrink(Pointwise):
    """A float dtype, and no bound below 0."""

    def __call__(self, *args: Any) -> Any:
        _check_bound(args[1])
        return super().__call__(*args)


def _check_bound(lambd: Any) -> None:
    if isinstance(lambd, (int, float)) and lambd < 0:
        raise ShapeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")


_SOFTSHRINK = parse_schema("aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor")


def _softshrink(self: Any, lambd: Any) -> Any:
    _check_bound(lambd)  # here a program knows it, where the rule may not
    return aten.where(self > lambd, self - lambd, aten.where(self < -lambd, self + lambd, self * 0))


pointwise(
    "aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    "x where |x| > lambd, 0 elsewhere.",
    scalar=_hardshrink,
    over=("self",),
    accepts=_is_float,
    wants="floating point tensors",
    numbers=False,
    inplace=False,
    public=("weft", "Tensor", "nn.functional"),
    vjp={"self": _gradient},
    samples=draw(case(F(3, 4)), case(F(5), 1.2)),
    reference=lambda x, lambd: np.where(np.abs(x) > lambd, x, 0),
)
define(
    _SOFTSHRINK,
    "x - lambd above lambd, x + lambd below -lambd, 0 between.",
    type=_Softshrink(_SOFTSHRINK, over=("self",), accepts=_is_float, wants="floating point tensors"),
    decompose=_softshrink,
    specialize={"lambd": lambda lambd: lambd < 0},  # refused
    out=True,
    public=_F,
    vjp={"self": _gradient},
    samples=draw(case(F(3, 4)), case(F(5), 1.2)),
    reference=lambda x, lambd: np.sign(x) * np.maximum(np.abs(x) - lambd, 0),
)
define(
    "aten::tanhshrink(Tensor self) -> Tensor", "x - tanh(x).", decompose=lambda self: self - aten.tanh(self), public=_F
)
