"""Casts: the tensor with another dtype, and copies with the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.ops.op import NOT_DIFFERENTIABLE, define, itself
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import FLOAT, TensorType


class _Cast(Pointwise):
    """The rule of casts: self's dims, the dtype asked for."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        dtype: DType = args[0].dtype
        return dtype

    def result_dtype(self, args: tuple[Any, ...]) -> DType:
        return args[1] if isinstance(args[1], DType) else self.compute_dtype(args)


to_copy = pointwise(
    "aten::_to_copy(Tensor self, ScalarType? dtype=None) -> Tensor",
    "A copy with another dtype: floats truncate to integers, anything to bool is `!= 0`, complex to real drops the "
    "imaginary part.",
    scalar=lambda s, x, dtype: x if dtype is None else s.cast(x, dtype),
    rule=_Cast,
    keep=("self",),
    inplace=False,
    out=False,
    numbers=False,
    public=(),
    vjp={"self": lambda g, self_dtype: aten._to_copy(g, dtype=self_dtype)},
    reference=lambda x, dtype: x.copy() if dtype is None else x.astype(dtype.numpy),
    identity=itself,
)


class _Number(_Cast):
    """The rule of a tensor's only element as a number."""

    def __call__(self, *args: Any) -> Any:
        return FLOAT

    def result_dtype(self, args: tuple[Any, ...]) -> DType:
        return dt.float64


number = pointwise(
    "prim::number(Tensor self) -> float",
    "The only element of a 0-dim tensor of real numbers, as a number of Python's.",
    scalar=lambda s, x: s.cast(x, dt.float64),
    rule=_Number,
    keep=("self",),
    inplace=False,
    out=False,
    numbers=False,
    public=(),
    vjp=NOT_DIFFERENTIABLE,
    reference=lambda x: float(x),
)

clone = pointwise(
    "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    "A copy with memory of its own.",
    scalar=lambda s, x, memory_format: x,
    keep=("self",),
    over=("self",),
    result="self",
    inplace=False,
    out=False,
    numbers=False,
    vjp={"self": lambda g: g},
    reference=lambda x, memory_format: np.array(x),
    identity=itself,
)


def _cast(self: Any, dtype: DType | None, copy: bool = False) -> Any:
    """The tensor itself where it has the dtype already and no copy is asked for."""
    if dtype is None or self.dtype is dtype:
        return aten.clone(self) if copy else self
    return aten._to_copy(self, dtype=dtype)


def _cast_type(self: TensorType, dtype: DType | None, *rest: Any) -> TensorType:
    return self if dtype is None else self.with_dtype(dtype)


define(
    parse_schema("aten::to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False) -> Tensor"),
    "The tensor with the dtype of another: itself if it has it already.",
    type=lambda self, other, non_blocking, copy: _cast_type(self, other.dtype),
    decompose=lambda self, other, non_blocking, copy: _cast(self, other.dtype, copy),
    public=("Tensor",),
)

define(
    parse_schema("aten::to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False) -> Tensor"),
    "The tensor with a dtype: itself if it has it already.",
    type=_cast_type,
    decompose=lambda self, dtype, non_blocking, copy: _cast(self, dtype, copy),
    public=("Tensor",),
)

define(
    parse_schema("aten::type_as(Tensor self, Tensor other) -> Tensor"),
    "The tensor with the dtype of another: itself if it has it already.",
    type=lambda self, other: _cast_type(self, other.dtype),
    decompose=lambda self, other: _cast(self, other.dtype),
    public=("Tensor",),
)


def _define_named_cast(name: str, dtype: DType) -> None:
    define(
        f"aten::{name}(Tensor self) -> Tensor",
        f"The tensor as {dtype}: itself if it is already.",
        type=lambda self: self.with_dtype(dtype),
        decompose=lambda self: _cast(self, dtype),
        public=("Tensor",),
    )


for _name, _dtype in {
    "bool": dt.bool_, "byte": dt.uint8, "char": dt.int8, "short": dt.int16, "int": dt.int32, "long": dt.int64,
    "half": dt.float16, "bfloat16": dt.bfloat16, "float": dt.float32, "double": dt.float64, "cfloat": dt.complex64,
    "cdouble": dt.complex128,
}.items():
    _define_named_cast(_name, _dtype)
