"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

from weft.catalogue.samples import F, case, draw
from weft.catalogue.widening import cast, widened
from weft.ops.batching import along
from weft.ops.layout import ROW_MAJOR
from weft.ops.op import Op, define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.support.errors import NotForDType
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType


def _softmax_type(self: TensorType, dim: int, dtype: DType | None) -> TensorType:
    if self.dims is not None:
        normalize_dim("softmax", dim, self.ndim)
    if dtype is not None:
        return self.with_dtype(dtype)
    if self.dtype is not None and not self.dtype.is_floating_point:
        raise NotForDType(f'"softmax" not implemented for {self.dtype}; give dtype=, or a floating point tensor')
    return self


def _shifted(self: Any, dim: int, dtype: DType | None) -> Any:
    """x - max(x), so that exp cannot overflow; in the dtype of computation."""
    x = widened(self if dtype is None else cast(self, dtype))
    return x - aten._greatest(x, dim, True)


def _softmax(self: Any, dim: int, dtype: DType | None) -> Any:
    e = aten.exp(_shifted(self, dim, dtype))
    return cast(e / aten.sum(e, dim, True), dtype or self.dtype)


def _log_softmax(self: Any, dim: int, dtype: DType | None) -> Any:
    x = _shifted(self, dim, dtype)
    return cast(x - aten.log(aten.sum(aten.exp(x), dim, True)), dtype or self.dtype)


def softmax_back(g: Any, result: Any, dim: int) -> Any:
    weighted = g * result
    return weighted - result * aten.sum(weighted, dim, True)


def _softmax_tangent(op: Op, primals: Any, tangents: Any, out: Any) -> Any:
    return softmax_back(aten._to_copy(tangents[0], out.dtype), out, primals[1])  # the Jacobian is symmetric


define(
    "aten::_softmax(Tensor self, int dim, ScalarType? dtype) -> Tensor",
    "exp(x) / sum(exp(x)) along dim, computed in `dtype` if given.",
    type=_softmax_type,
    decompose=_softmax,
    vjp={"self": softmax_back},
    batch=along("dim"), jvp=_softmax_tangent, padding="lowest",
    lies=ROW_MAJOR,
    public=(),
    samples=draw(case(F(3, 4), 1, None), case(F(2, 3, 2), -2, None), case(F(), 0, None)),
)


def _log_softmax_tangent(op: Op, primals: Any, tangents: Any, out: Any) -> Any:
    direction = aten._to_copy(tangents[0], out.dtype)
    return direction - aten.sum(aten.exp(out) * direction, (primals[1],), True)


define(
    "aten::_log_softmax(Tensor self, int dim, ScalarType? dtype) -> Tensor",
    "x - log(sum(exp(x))) along dim, computed in `dtype` if given.",
    type=_softmax_type,
    decompose=_log_softmax,
    vjp={"self": lambda g, result, dim: g - aten.exp(result) * aten.sum(g, dim, True)},
    batch=along("dim"), jvp=_log_softmax_tangent, padding="lowest",
    lies=ROW_MAJOR,
    public=(),
    samples=draw(case(F(3, 4), 1, None), case(F(2, 3, 2), -2, None)),
)


for _name, _inner in (("softmax", lambda *a: aten._softmax(*a)), ("log_softmax", lambda *a: aten._log_softmax(*a))):
    define(
        f"aten::{_name}.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        f"{'Softmax' if _name == 'softmax' else 'Logarithm of the softmax'} along a dim: positive, and summing to one.",
        decompose=_inner,
        padding="lowest",
        public=("weft", "Tensor"),
        out=True,
    )
