"""Operands in the Array API's sense: a tensor of no dims widens others as any tensor does, a Python number never
beyond its kind."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.support.errors import ArgumentError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.promotion import number_dtype, promote

Number = bool | int | float | complex


def of_number(dtype: DType, value: Number) -> DType:
    """The dtype of a Python number beside a tensor of `dtype`."""
    own = number_dtype(type(value))
    if own.category <= dtype.category:
        return dtype
    return dtype.to_complex() if own.is_complex and dtype.is_floating_point else own


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arithmetic between tensors, dtypes and Python numbers has.
    Raises ArgumentError where there is neither a tensor nor a dtype."""
    joined: DType | None = None
    for value in arrays_and_dtypes:
        own = value.dtype if isinstance(value, Tensor) else value if isinstance(value, DType) else None
        if own is not None:
            joined = own if joined is None else promote(joined, own)
    if joined is None:
        raise ArgumentError("result_type(): expected at least one tensor or dtype")
    for value in arrays_and_dtypes:
        if isinstance(value, (bool, int, float, complex)):
            joined = of_number(joined, value)
        elif not isinstance(value, (Tensor, DType)):
            raise ArgumentError(f"result_type(): expected tensors, dtypes or numbers, got {type(value).__name__}")
    return joined


def promoted(*values: Any) -> tuple[Tensor, ...]:
    """The operands as tensors of their common dtype."""
    dtype = result_type(*values)
    return tuple(
        value.to(dtype) if isinstance(value, Tensor) else aten.full((), value, dtype=dtype) for value in values
    )


def can_cast(from_: Tensor | DType, to: DType, /) -> bool:
    """Whether promotion leads from one dtype to another: their common dtype is `to`."""
    source = from_.dtype if isinstance(from_, Tensor) else from_
    if source.category > to.category:
        return False
    return source.category < to.category or promote(source, to) is to


def summed(dtype: DType) -> DType:
    """The dtype of a sum or product of elements: int64 for small integers and booleans."""
    return dt.int64 if dtype.category <= dt.INT else dtype
