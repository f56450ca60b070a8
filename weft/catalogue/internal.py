"""Operators that rules and methods need and users do not."""

from __future__ import annotations

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.ops.op import define

define(
    "aten::_contiguous_copy(Tensor self) -> Tensor",
    "A copy that lies row-major in memory.",
    type=lambda self: self,
    kernel=lambda x: np.array(x, order="C"),
    vjp={"self": lambda g: g},
    public=(),
    samples=draw(case(F(2, 3))),
    reference=np.array,
)
