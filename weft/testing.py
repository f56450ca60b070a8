"""weft.testing: assert_close for tests of programs, tensors of random contents for them, and a checker of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.support.errors import ArgumentError, ValueProblem
from weft.support.file_check import FileCheck
from weft.tensor.creation import as_tensor
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.formats import strided

__all__ = ["FileCheck", "assert_close", "make_tensor"]

# rtol and atol by dtype, as in PyTorch; other dtypes are compared exactly
_TOLERANCES = {
    dt.float16: (1e-3, 1e-5), dt.bfloat16: (1.6e-2, 1e-5), dt.float32: (1.3e-6, 1e-5), dt.float64: (1e-7, 1e-7),
    dt.complex64: (1.3e-6, 1e-5), dt.complex128: (1e-7, 1e-7),
}


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: Any = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere;
    sequences and mappings are compared item by item.

    Shapes and (with check_dtype, check_layout) dtypes and layouts must be equal. Tolerances left out follow the dtype;
    give both or neither.
    """
    if (rtol is None) != (atol is None):
        raise ValueProblem("Both 'rtol' and 'atol' must be either specified or unspecified.")
    checks = _Checks(check_dtype, check_layout, check_stride)
    problem = _difference(actual, expected, "", (rtol, atol), equal_nan, checks)
    if problem is not None:
        raise AssertionError(msg(problem) if callable(msg) else problem if msg is None else msg)


class _Checks(NamedTuple):
    """What must be equal beside sizes and values."""

    dtype: bool
    layout: bool
    stride: bool


def _difference(a: Any, b: Any, where: str, tolerances: Any, equal_nan: bool, checks: _Checks) -> str | None:
    """What differs, or None."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            return f"The keys of the mappings do not match:\n{sorted(map(str, a))} != {sorted(map(str, b))}"
        items = [(f"{where}[{k!r}]", a[k], b[k]) for k in a]
    elif isinstance(a, Sequence) and isinstance(b, Sequence) and not isinstance(a, str):
        if len(a) != len(b):
            return f"The length of the sequences mismatch: {len(a)} != {len(b)}{where and f' (at {where})'}"
        items = [(f"{where}[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    else:
        difference = _compared(a, b, tolerances, equal_nan, checks)
        return (
            difference if difference is None or not where
            else f"{difference}\n\nThe failure occurred for item {where}"
        )
    for place, x, y in items:
        difference = _difference(x, y, place, tolerances, equal_nan, checks)
        if difference is not None:
            return difference
    return None


def _compared(a: Any, b: Any, tolerances: Any, equal_nan: bool, checks: _Checks) -> str | None:
    if a is None or b is None:
        return None if a is b else f"None mismatch: {a} is not {b}"
    are_numbers = not isinstance(a, (Tensor, np.ndarray)) and not isinstance(b, (Tensor, np.ndarray))
    x, y = _tensor(a), _tensor(b)
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}."
    if checks.layout and x.layout is not y.layout:
        return f"The values for attribute 'layout' do not match: {x.layout} != {y.layout}."
    if checks.dtype and x.dtype is not y.dtype and not are_numbers:
        return f"The values for attribute 'dtype' do not match: {x.dtype} != {y.dtype}."
    if checks.stride and x.stride() != y.stride():
        return f"The values for attribute 'stride()' do not match: {x.stride()} != {y.stride()}."
    rtol, atol = tolerances if tolerances[0] is not None else tuple(map(
        max, zip(*(_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (x, y)), strict=True)
    ))
    return _mismatch(_wide(x), _wide(y), rtol, atol, equal_nan)


def _mismatch(
    x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], rtol: float, atol: float, equal_nan: bool
) -> str | None:
    with np.errstate(all="ignore"):
        close = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
        if close.all():
            return None
        off = np.where(close, 0, np.abs(x - y))
    if not x.ndim:
        return (
            f"Scalars are not close!\n\nExpected {y.item()} but got {x.item()}.\n"
            f"Absolute difference: {off.item()} (up to {atol} allowed)"
        )
    at = tuple(
        int(i)
        for i in np.unravel_index(int(np.nanargmax(np.where(close, -1, np.nan_to_num(off, nan=math.inf)))), x.shape)
    )
    count = int((~close).sum())
    return (
        f"Tensor-likes are not close!\n\nMismatched elements: {count} / {x.size} ({count / x.size:.1%})\n"
        f"Greatest absolute difference: {off[at]} at index {at} (up to {atol} allowed, relative {rtol})"
    )


def _tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        return as_tensor(value)
    raise ArgumentError(
        "assert_close compares tensors, arrays, numbers, and sequences and mappings of them, "
        f"not {type(value).__name__}"
    )


def _wide(tensor: Tensor) -> np.ndarray[Any, Any]:
    wide = (
        tensor.to(dt.complex128 if tensor.dtype.is_complex else dt.float64) if tensor.dtype.is_differentiable
        else tensor.to(dt.int64)
    )
    return (wide if wide.layout is strided else wide.to_dense()).numpy()


def make_tensor(
    *shape: Any, dtype: DType, device: Any = "cpu", low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:
    """A tensor with random contents in [low, high): by default from -9 (0 for unsigned) to 9,
    integers up to 9 included."""
    dims = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    least = (0 if dtype in (dt.uint8, dt.bool_) else -9) if low is None else low
    most = (2 if dtype is dt.bool_ else 10 if not dtype.is_differentiable else 9) if high is None else high
    tensor = _drawn(dims, dtype, least, most)
    if exclude_zero:
        tensor = tensor.masked_fill(tensor == 0, 1)
    if noncontiguous and tensor.numel() > 1:
        tensor = tensor.repeat_interleave(2, -1)[..., ::2]
    if memory_format is not None:
        tensor = tensor.clone(memory_format=memory_format)
    return tensor.to(device).requires_grad_(requires_grad)


def _drawn(dims: tuple[int, ...], dtype: DType, low: float, high: float) -> Tensor:
    from weft.ops.packet import aten  # its entries are complete once weft is

    if not dtype.is_differentiable:
        drawn: Tensor = aten.randint(int(low), max(int(high), int(low) + 1), dims).to(dtype)
        return drawn
    scaled: Tensor = aten.rand(dims, dtype=dt.complex128 if dtype.is_complex else dt.float64) * (high - low)
    return (scaled + (complex(low, low) if dtype.is_complex else low)).to(dtype)
