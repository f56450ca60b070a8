"""Pointwise arithmetic, comparison and logic: entries whose value is given for one element."""

from __future__ import annotations

import numpy as np

from weft.catalogue.families import pointwise, scaled
from weft.ops.op import NOT_DIFFERENTIABLE
from weft.ops.packet import aten
from weft.types import dtype as dt

add = pointwise(
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "Sum, element by element: self + alpha * other.",
    scalar=lambda s, a, b, alpha: s.add(a, b if alpha is None else s.mul(alpha, b)),
    over=("self", "other"),
    vjp={"self": lambda g: g, "other": lambda g, alpha: scaled(g, alpha)},
    reference=lambda a, b, alpha: a + alpha * b,
)

mul = pointwise(
    "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor",
    "Product, element by element.",
    scalar=lambda s, a, b: s.mul(a, b),
    vjp={"self": lambda g, other: g * aten.conj(other), "other": lambda g, self: g * aten.conj(self)},
    reference=np.multiply,
)

neg = pointwise(
    "aten::neg(Tensor self) -> Tensor",
    "Negation.",
    scalar=lambda s, x: s.neg(x),
    accepts=lambda d: d is not dt.bool_,
    wants="numbers; use logical_not or ~ for bool",
    vjp={"self": lambda g: -g},
    reference=np.negative,
)

exp = pointwise(
    "aten::exp(Tensor self) -> Tensor",
    "e to the power of each element.",
    scalar=lambda s, x: s.exp(x),
    compute="float",
    vjp={"self": lambda g, result: g * aten.conj(result)},
    reference=np.exp,
)

lt = pointwise(
    "aten::lt.Tensor(Tensor self, Tensor other) -> Tensor",
    "Whether self < other, element by element.",
    scalar=lambda s, a, b: s.lt(a, b),
    result="bool",
    vjp=NOT_DIFFERENTIABLE,
    reference=np.less,
)

where = pointwise(
    "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    "self where the condition holds, else other.",
    scalar=lambda s, c, a, b: s.where(c, a, b),
    keep=("condition",),
    inplace=False,
    vjp={
        "self": lambda g, condition: aten.where(condition, g, 0),
        "other": lambda g, condition: aten.where(condition, 0, g),
    },
    reference=np.where,
)

conj = pointwise(
    "aten::conj(Tensor self) -> Tensor",
    "Complex conjugate; a real tensor is returned unchanged.",
    scalar=lambda s, x: s.conj(x),
    inplace=False,
    vjp={"self": lambda g: aten.conj(g)},
    reference=np.conjugate,
)
