"""Type promotion, PyTorch's rules: by category first, then by priority (tensors with dims, 0-dim tensors,
Python numbers)."""

from __future__ import annotations

from functools import cache

from weft.support.errors import DTypeError
from weft.types import dtype as dt
from weft.types.dtype import DType, UnheldDType

_ORDER = {
    d: i for i, d in enumerate((dt.bool_, dt.int8, dt.int16, dt.int32, dt.int64, dt.float16, dt.float32, dt.float64))
}


@cache
def promote(a: DType, b: DType) -> DType:
    """The smallest dtype that holds both (of equal priority)."""
    if a is b:
        return a
    if isinstance(a, UnheldDType) or isinstance(b, UnheldDType):
        return _promote_unheld(a, b)
    if a.category > b.category:
        a, b = b, a
    if b.is_complex:
        return b if not a.is_differentiable else promote(a.to_real(), b.to_real()).to_complex()
    if a.category < b.category:
        return b
    if dt.bfloat16 in (a, b):
        other = a if b is dt.bfloat16 else b
        return dt.float32 if other is dt.float16 else other
    if dt.uint8 in (a, b):
        other = a if b is dt.uint8 else b
        return dt.int16 if other is dt.int8 else other
    return a if _ORDER[a] > _ORDER[b] else b


def _promote_unheld(a: DType, b: DType) -> DType:
    """Of dtypes that are only named: the unsigned integers are promoted as in the Array API. Raises UnheldDTypeError
    for others, and DTypeError for uint64 beside a signed integer."""
    if dt.BOOL in (a.category, b.category):
        return a if b.category == dt.BOOL else b
    for d in (a, b):
        if isinstance(d, UnheldDType) and d.category != dt.INT:
            d.refuse()
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    bits = max(signed.bits, 2 * unsigned.bits)
    if bits > 64:
        raise DTypeError(f"no integer dtype holds both {a} and {b}")
    return dt.by_name(f"int{bits}")


def combine(higher: DType | None, lower: DType | None) -> DType | None:
    """`lower` priority widens `higher` only when its category is greater; a float made complex keeps its precision."""
    if higher is None or lower is None:
        return higher or lower
    if lower.category <= higher.category:
        return higher
    return higher.to_complex() if higher.is_floating_point else lower


def number_dtype(kind: type) -> DType:
    """The dtype a Python number stands for within promotion."""
    if kind is bool:
        return dt.bool_
    if kind is int:
        return dt.int64
    if kind is complex:
        return dt.get_default().to_complex()
    return dt.get_default()


def result_type(dims: tuple[DType, ...], zero_dims: tuple[DType, ...], numbers: tuple[DType, ...]) -> DType:
    """Promotion over tensors with dims, 0-dim tensors and numbers, in falling priority."""
    parts: list[DType | None] = []
    for group in (dims, zero_dims, numbers):
        joined: DType | None = None
        for d in group:
            joined = d if joined is None else promote(joined, d)
        parts.append(joined)
    promoted = combine(parts[0], combine(parts[1], parts[2])) if parts[0] is None else combine(
        combine(parts[0], parts[1]), parts[2]
    )
    return dt.get_default() if promoted is None else promoted


def can_cast(source: DType, target: DType) -> bool:
    """Whether an in-place or out= result of dtype `source` may be stored as `target` (category may not fall)."""
    if source.is_complex and not target.is_complex:
        return False
    if source.is_floating_point and target.category < dt.FLOAT:
        return False
    return not (source.category != dt.BOOL and target is dt.bool_)


_SCALAR_TYPES = {
    dt.bool_: "Bool", dt.uint8: "Byte", dt.int8: "Char", dt.int16: "Short", dt.int32: "Int", dt.int64: "Long",
    dt.float16: "Half", dt.bfloat16: "BFloat16", dt.float32: "Float", dt.float64: "Double",
    dt.complex64: "ComplexFloat", dt.complex128: "ComplexDouble",
}


def check_cast(source: DType, target: DType) -> None:
    """Raises DTypeError where a result of dtype `source` may not be stored as `target`."""
    if source is not target and not can_cast(source, target):
        names = _SCALAR_TYPES[source], _SCALAR_TYPES[target]
        raise DTypeError(f"result type {names[0]} can't be cast to the desired output type {names[1]}")
