"""Operators that rules and methods need and users do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.catalogue.shapes.batching import known_sizes
from weft.catalogue.shapes.views import infer_size
from weft.ops.batching import unary
from weft.ops.op import define, itself
from weft.ops.packet import aten
from weft.ops.tangents import linear
from weft.support.errors import StateError
from weft.types.tensor_type import TensorType

define(
    "aten::_contiguous_copy(Tensor self) -> Tensor",
    "A copy that lies row-major in memory.",
    node="CloneBackward0.contiguous",
    type=lambda self: self,
    kernel=lambda x: np.array(x, order="C"),
    vjp={"self": lambda g: g},
    batch=unary, jvp=linear,
    public=(),
    samples=draw(case(F(2, 3))),
    reference=np.array,
    identity=itself,
)


define(
    "aten::_with_history_of(Tensor self, Tensor history) -> Tensor",
    "A copy of self whose gradient flows into another tensor: what a tensor is behind a write that is not recorded.",
    type=lambda self, history: self,
    kernel=lambda x, history: np.array(x, order="C"),
    vjp={"history": lambda g: g},
    public=(),
    samples=draw(case(F(2, 3), F(2, 3))),
    reference=lambda x, history: np.array(x),
)


def _unsafe_view_type(self: TensorType, size: Sequence[Any]) -> TensorType:
    return self.with_dims(infer_size(size, self.shape)) if self.is_complete else self.with_dims(None)  # type: ignore[arg-type]


define(
    "aten::_unsafe_view(Tensor self, int[] size) -> Tensor",
    "A temporary in other dims, as a tensor of its own: for the last step of composites, whose results are not views.",
    type=_unsafe_view_type,
    decompose=lambda self, size: aten.reshape(self, size),
    vjp={"self": lambda g, self_dims: aten.reshape(g, self_dims)},
    batch=lambda op, size, flags, self, sizes: aten._unsafe_view(self, (size, *known_sizes(self.dims, sizes))),
    jvp=linear,
    samples=draw(case(F(2, 6), (3, 4)), case(F(4), (2, -1))),
    public=(),
)


def _refuse_pinning(self: Any, device: Any = None) -> Any:
    raise StateError("_pin_memory: Cannot access accelerator device when none is available.")


define(
    "aten::_pin_memory(Tensor self, Device? device=None) -> Tensor",
    "Refused: there is no accelerator to lock pages of memory for. Programs name it to say what their classes do then.",
    decompose=_refuse_pinning,
    public=(),
)


define(
    "aten::_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    "addmm, by the name under which classes of programs say what a product with a sparse matrix is.",
    decompose=lambda self, mat1, mat2, beta, alpha: aten.addmm(self, mat1, mat2, beta=beta, alpha=alpha),
    samples=draw(case(F(2, 3), F(2, 4), F(4, 3)), case(F(3), F(2, 4), F(4, 3), beta=3, alpha=2)),
    reference=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b),
    public=(),
)
