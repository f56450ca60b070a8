"""Tensors from nothing, from numbers and from others, with the Array API's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.interop.buffers import asarray as weft_asarray
from weft.interop.dlpack import from_dlpack as weft_from_dlpack
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType

Shape = int | Sequence[int]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of numbers, of a buffer or of another tensor. copy=False shares memory, or raises ValueProblem."""
    return weft_asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares memory with another library's array."""
    return weft_from_dlpack(x, device=device, copy=copy)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """start, start + step, ... before stop; 0, 1, ... before start where there is no stop. Empty where none lies
    before it."""
    first, last = (0, start) if stop is None else (start, stop)
    if dtype is None:
        dtype = dt.int64 if all(isinstance(n, int) for n in (first, last, step)) else dt.get_default()
    if (last - first) * step <= 0:
        last = first
    return aten.arange(first, last, abs(step) if first == last else step, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: DType | None = None, device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """num numbers at equal distances [num], the last of them `stop`, or one distance before it."""
    if dtype is None:
        real = dt.get_default()
        dtype = real.to_complex() if isinstance(start, complex) or isinstance(stop, complex) else real
    if endpoint:
        return aten.linspace(start, stop, num, dtype=dtype, device=device)
    return aten.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """Ones on a diagonal, k places above the main one, zeros elsewhere [n_rows, n_cols]."""
    n_cols = n_rows if n_cols is None else n_cols
    k = max(-n_rows, min(k, n_cols))  # beyond these there is nothing
    rows = aten.arange(n_rows, device=device).unsqueeze(1)
    columns = aten.arange(n_cols, device=device)
    return (rows + k == columns).to(dtype or dt.get_default())


def empty(shape: Shape, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Values of no meaning."""
    return aten.empty(_sizes(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros."""
    return aten.zeros(_sizes(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones."""
    return aten.ones(_sizes(shape), dtype=dtype, device=device)


def full(shape: Shape, fill_value: complex, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """One value; without dtype that of the Python number."""
    return aten.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Values of no meaning, of a tensor's size."""
    return aten.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros of a tensor's size."""
    return aten.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones of a tensor's size."""
    return aten.ones_like(x, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: complex, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """One value, of a tensor's size."""
    return aten.full_like(x, fill_value, dtype=dtype, device=device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid, a tensor for each axis; "xy": the first two axes exchanged, "ij": in their order."""
    return list(aten.meshgrid(list(arrays), indexing=indexing)) if arrays else []


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Each matrix without what lies above a diagonal, k places above the main one."""
    return aten.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Each matrix without what lies below a diagonal, k places above the main one."""
    return aten.triu(x, k)
