"""The older constructors: weft.FloatTensor(2, 3), weft.LongTensor([1, 2]), weft.Tensor(2, 3), x.new(4).
Sizes give uninitialised tensors, data a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ops.packet import aten
from weft.support.errors import ArgumentError, ShapeError, StateError, too_large
from weft.support.warn import warn
from weft.tensor.creation import tensor
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.sym import SymInt

TYPE_NAMES = {
    "Bool": dt.bool_, "Byte": dt.uint8, "Char": dt.int8, "Short": dt.int16, "Int": dt.int32, "Long": dt.int64,
    "Half": dt.float16, "BFloat16": dt.bfloat16, "Float": dt.float32, "Double": dt.float64,
    "ComplexFloat": dt.complex64, "ComplexDouble": dt.complex128,
}


def construct(dtype: DType, args: tuple[Any, ...]) -> Tensor:
    """What `LongTensor(*args)` gives: an empty tensor, one of the sizes named, a copy of a sequence or array,
    or an alias of a tensor of the dtype."""
    if not args:
        return _empty(dtype, (0,))
    first = args[0]
    if (
        (isinstance(first, Tensor) and first.ndim == 0 and len(args) > 1)
        or (isinstance(first, int) and not isinstance(first, bool))
    ):
        return _empty(dtype, tuple(a if _is_of_program(a) else int(a) for a in args))
    if len(args) > 1:
        raise ArgumentError(
            f"new() received an invalid combination of arguments - got ({', '.join(type(a).__name__ for a in args)})"
        )
    if isinstance(first, Size):
        return _empty(dtype, tuple(first))
    if isinstance(first, Tensor):
        if first.dtype is not dtype:
            raise ArgumentError(f"expected a tensor of {dtype} (got one of {first.dtype})")
        return first.detach()
    if isinstance(first, (np.ndarray, Sequence)) and not isinstance(first, (str, bytes)):
        return tensor(first, dtype=dtype)
    if isinstance(first, (str, bytes)):
        raise ArgumentError(f"new(): invalid data type '{type(first).__name__}'")
    raise ArgumentError(f"new(): data must be a sequence (got {type(first).__name__})")


def range_with_end(
    start: float, end: float | None = None, step: float = 1, *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... up to `end`, which is among them where it is reached; of the default dtype.
    PyTorch has `arange` in its place. Raises StateError."""
    warn(
        "weft.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use weft.arange, which produces values in [start, end)."
    )
    first, last = (0, start) if end is None else (start, end)
    if step == 0:
        raise StateError("step must be nonzero")
    if (last - first) * step < 0:
        raise StateError("upper bound and lower bound inconsistent with step sign")
    wanted = dtype or dt.get_default()
    count = int((last - first) / step) + 1
    values = aten.to(aten.arange(count, device=device), dt.int64 if wanted.category == dt.INT else dt.float64)
    out: Tensor = aten.to(values * step + first, wanted)
    return out.requires_grad_(requires_grad)


def _is_of_program(number: Any) -> bool:
    return type(number) is SymInt or hasattr(type(number), "__weft_integer__")


def _empty(dtype: DType, dims: tuple[Any, ...]) -> Tensor:
    if any(map(_is_of_program, dims)):
        return aten.empty(dims, dtype=dtype)  # type: ignore[no-any-return]
    try:
        return tensor_around(np.empty(dims, dtype.numpy))
    except (MemoryError, ValueError) as problem:
        if min(dims) < 0:
            raise ShapeError(f"Trying to create tensor with negative dimension: {list(dims)}") from None
        raise too_large("new()", problem) or problem from None


Tensor._construct = staticmethod(construct)


class _TensorType(type):
    """A class whose calls make tensors of its dtype, and whose instances are those tensors."""

    dtype: DType

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return construct(cls.dtype, args)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype


def _tensor_type(name: str, dtype: DType) -> type:
    doc = (
        f"Tensors of {dtype}: {name}(2, 3) is uninitialised, {name}([1, 2]) a copy; isinstance(x, {name}) asks "
        "for the dtype."
    )
    return _TensorType(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "weft"})


TYPES: dict[str, Any] = {f"{name}Tensor": _tensor_type(f"{name}Tensor", dtype) for name, dtype in TYPE_NAMES.items()}


def __getattr__(name: str) -> Any:
    """`weft.tensor.legacy.FloatTensor` and its like."""
    if name in TYPES:
        return TYPES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def dtype_of_name(name: str) -> DType | None:
    """The dtype of "weft.FloatTensor", or None for other texts."""
    last = name.rpartition(".")[2]
    return TYPE_NAMES.get(last[: -len("Tensor")]) if last.endswith("Tensor") else None
