"""Numbers taken apart: frexp, ldexp, nextafter, gcd, lcm."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.samples import F, I, case, draw
from weft.ops.batching import unary
from weft.ops.compute import type_of
from weft.ops.op import NOT_DIFFERENTIABLE, Out, define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.support.errors import NotForDType
from weft.types import dtype as dt
from weft.types import promotion
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

Array = Any


def _is_whole(d: DType) -> bool:
    return d.category == dt.INT


def _of_two(
    name: str, doc: str, ufunc: Any, accepts: Any, wants: str, samples: Any, vjp: Any = NOT_DIFFERENTIABLE
) -> None:
    schema = parse_schema(f"aten::{name}(Tensor self, Tensor other) -> Tensor")
    rule = Pointwise(schema, accepts=accepts, wants=wants)

    def kernel(a: Array, b: Array) -> Array:
        target = rule.promoted((type_of(a), type_of(b))).numpy
        return np.asarray(ufunc(a.astype(target, copy=False), b.astype(target, copy=False)))

    define(schema, doc, type=rule, kernel=kernel, vjp=vjp, inplace=True, out=True, samples=samples, reference=ufunc)


_of_two(
    "gcd", "The greatest common divisor, never negative.", np.gcd, _is_whole, "integers",
    draw(case(I(3, 4, high=30), I(4, high=30))),
)
_of_two(
    "lcm", "The least common multiple, never negative.", np.lcm, _is_whole, "integers",
    draw(case(I(3, 4, high=30), I(4, high=30))),
)
_of_two(
    "nextafter", "The next number that the dtype holds from self towards other.", np.nextafter,
    lambda d: d.is_floating_point, "floating point numbers", draw(case(F(3, 4), F(4))),
    {"self": lambda g, self, other: aten.where(aten.eq(self, other), 0, g), "other": lambda g: aten.zeros_like(g)},
)


def _frexp_type(self: TensorType) -> tuple[TensorType, TensorType]:
    if self.dtype is not None and not self.dtype.is_floating_point:
        raise NotForDType(f"frexp: not implemented for {self.dtype}; it takes floating point tensors")
    return self, self.with_dtype(dt.int32)


def _frexp(x: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(x.astype(np.float32) if x.dtype.kind == "V" else x)
    return np.asarray(mantissa, x.dtype), np.asarray(exponent, np.int32)


define(
    "aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    "Mantissas in [0.5, 1) (0 for 0) and exponents, an int32 tensor: self == mantissa * 2**exponent.",
    type=_frexp_type,
    kernel=_frexp,
    vjp={"self": lambda gs, result1: aten.ldexp(gs[0], -result1)},
    batch=unary,
    out=True,
    samples=draw(case(F(3, 4))),
    reference=np.frexp,
)
def _ldexp(self: Any, other: Any) -> Any:
    if other.dtype.is_complex:
        return self * aten.pow(2.0, other)
    dtype = self.dtype
    if other.dtype.is_floating_point:
        dtype = promotion.promote(dtype, other.dtype)
    elif not dtype.is_differentiable:
        dtype = dt.get_default()
    return self * aten.pow(2.0, aten.to(other, dtype.to_real() if dtype.is_complex else dtype))


define(
    "aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
    "self * 2**other.",
    decompose=_ldexp,
    inplace=True,
    out=Out("castable"),
    samples=draw(case(F(3, 4), F(4))),
    reference=lambda x, n: x * 2.0**n,
)
