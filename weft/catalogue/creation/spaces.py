"""Evenly spaced numbers and places: linspace, logspace, tril_indices, triu_indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.creation.factories import OPTIONS, or_default
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.packet import aten
from weft.support.errors import ShapeError, StateError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type


def _space_dtype(start: Any, end: Any, dtype: DType | None) -> DType:
    """The dtype asked for, else the default one, complex if an end is."""
    is_complex = any(isinstance(v, complex) for v in (start, end))
    if is_complex and dtype is not None and not dtype.is_complex:
        raise StateError(f"linspace: the ends are complex, which {dtype} does not hold")
    return dt.get_default().to_complex() if is_complex and dtype is None else or_default(dtype)


def _space_type(start: Any, end: Any, steps: Dim, dtype: DType | None, device: str | None) -> TensorType:
    shape_env.refuse_less(steps, 0, lambda: StateError("linspace: number of steps must be non-negative"))
    return tensor_type(_space_dtype(start, end, dtype), (steps,), device or "cpu")


def _linspace(start: Any, end: Any, steps: Dim, dtype: DType | None, device: str | None) -> Any:
    """From both ends towards the middle, so that the last element is `end` exactly."""
    target = _space_dtype(start, end, dtype)
    start, end = (int(v) if isinstance(v, bool) else v for v in (start, end))
    index = aten._iota(steps)
    at = aten._to_copy(index, dtype=dt.complex128 if target.is_complex else dt.float64)
    step = aten.div(_width(start, end, at.dtype), dm.maximum(steps - 1, 1))
    from_start = aten.add(at * step, start)
    from_end = aten.sub(end, aten.rsub(at, steps - 1) * step)
    out = aten.where(aten.lt(index, dm.floordiv(steps, 2)), from_start, aten.where(aten.eq(index, 0), start, from_end))
    return aten._to_copy(out, dtype=target)


def _width(start: Any, end: Any, dtype: DType) -> Any:
    """end - start as a tensor, exact where both are integers; a size and a float have their difference there alone."""
    if any(hasattr(type(v), "__weft_route__") for v in (start, end)):
        return aten.full((), aten.sub(end, start), dtype=dtype)
    are_integers = all(isinstance(v, (int, dm.Expr)) for v in (start, end))
    if are_integers or isinstance(start, dm.Expr) is isinstance(end, dm.Expr):
        return aten.full((), end - start, dtype=dtype)
    return aten.sub(end, aten.full((), start, dtype=dtype))


def _ends_type(start: Any, end: Any, steps: Dim, dtype: DType | None, device: str | None) -> TensorType:
    ends = [v for v in (start, end) if isinstance(v, TensorType)]
    if any(v.dims is not None and v.ndim for v in ends):
        raise ShapeError("linspace only supports 0-dimensional start and end tensors")
    return _space_type(0, 0, steps, dtype, device or (ends[0].device if ends else None))


def _between(start: Any, end: Any, steps: Dim, dtype: DType | None, device: str | None) -> Any:
    """_linspace where an end is a tensor, whose value is not asked for."""
    target = or_default(dtype)
    wide = dt.complex128 if target.is_complex else dt.float64
    first, last = (aten._to_copy(v, dtype=wide) if hasattr(type(v), "__weft_route__") else v for v in (start, end))
    index = aten._iota(steps)
    at = aten._to_copy(index, dtype=wide)
    step = (last - first) / dm.maximum(steps - 1, 1)
    back = aten.sub(last, aten.rsub(at, steps - 1) * step)
    out = aten.where(
        aten.lt(index, dm.floordiv(steps, 2)), aten.add(at * step, first), aten.where(aten.eq(index, 0), first, back)
    )
    return aten._to_copy(out, dtype=target)


for _ends, _arguments in (
    ("Tensor_Tensor", "Tensor start, Tensor end"), ("Tensor_Scalar", "Tensor start, Scalar end"),
    ("Scalar_Tensor", "Scalar start, Tensor end"),
):
    define(
        f"aten::linspace.{_ends}({_arguments}, int steps, *, {OPTIONS}) -> Tensor",
        "`steps` numbers, evenly spaced between ends that 0-dim tensors hold.",
        type=_ends_type,
        decompose=_between,
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        out=True,
        reference=lambda start, end, steps, dtype, device: np.linspace(start, end, steps).astype(
            or_default(dtype).numpy
        ),
    )

linspace = define(
    f"aten::linspace(Scalar start, Scalar end, int steps, *, {OPTIONS}) -> Tensor",
    "`steps` numbers, evenly spaced from `start` to `end`, both included.",
    type=_space_type,
    decompose=_linspace,
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda start, end, steps, dtype, device: np.linspace(start, end, steps).astype(or_default(dtype).numpy),
)

def _powers(start: Any, end: Any, steps: Dim, base: float, dtype: DType | None, device: str | None) -> Any:
    target = _space_dtype(start, end, dtype)
    return aten._to_copy(
        aten.pow(base, aten.linspace(start, end, steps, dtype=dt.complex128 if target.is_complex else dt.float64)),
        dtype=target,
    )


def _powers_between(start: Any, end: Any, steps: Dim, base: float, dtype: DType | None, device: str | None) -> Any:
    """In double precision, complex where an end is."""
    dtypes = [getattr(v, "dtype", None) for v in (start, end)]
    wide = dt.complex128 if any(d is not None and d.is_complex for d in dtypes) else dt.float64
    return aten._to_copy(aten.pow(base, aten.linspace(start, end, steps, dtype=wide)), dtype=or_default(dtype))


for _ends, _arguments in (
    ("Tensor_Tensor", "Tensor start, Tensor end"), ("Tensor_Scalar", "Tensor start, Scalar end"),
    ("Scalar_Tensor", "Scalar start, Tensor end"),
):
    define(
        f"aten::logspace.{_ends}({_arguments}, int steps, float base=10.0, *, {OPTIONS}) -> Tensor",
        "`base` to the power of `steps` numbers evenly spaced between ends that 0-dim tensors hold.",
        type=lambda start, end, steps, base, dtype, device: _ends_type(start, end, steps, dtype, device),
        decompose=_powers_between,
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        out=True,
        reference=lambda start, end, steps, base, dtype, device: np.logspace(start, end, steps, base=base).astype(
            or_default(dtype).numpy
        ),
    )

logspace = define(
    f"aten::logspace(Scalar start, Scalar end, int steps, float base=10.0, *, {OPTIONS}) -> Tensor",
    "`base` to the power of `steps` numbers evenly spaced from `start` to `end`.",
    type=lambda start, end, steps, base, dtype, device: _space_type(start, end, steps, dtype, device),
    decompose=_powers,
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda start, end, steps, base, dtype, device: np.logspace(start, end, steps, base=base).astype(
        or_default(dtype).numpy
    ),
)


# ---- the places of a triangle


def _triangle_type(name: str) -> Callable[..., TensorType]:
    def rule(row: int, col: int, offset: int, dtype: DType | None, device: str | None) -> TensorType:
        for what, n in (("row", row), ("col", col)):
            text = f"{what} must be non-negative, got {n}"
            shape_env.refuse_less(n, 0, lambda text=text: ShapeError(text))  # type: ignore[misc]
        if dtype is not None and (dtype.is_differentiable or dtype is dt.bool_):
            raise ShapeError(f'"{name}_indices" not implemented for {dtype}')
        return tensor_type(dtype or dt.int64, (2, _triangle_count(name, row, col, offset)), device or "cpu")

    return rule


def _triangle_count(name: str, row: Dim, col: Dim, offset: Dim) -> Dim:
    """How many places a triangle has."""
    beyond = offset if name == "triu" else -offset
    if row == col and beyond in (0, 1):  # one of a square has no corners that are cut off
        return dm.floordiv(row * (row + 1 - 2 * beyond), 2)
    return _below(row, col, offset) if name == "tril" else row * col - _below(row, col, offset - 1)


def _below(row: Dim, col: Dim, offset: Dim) -> Dim:
    """Places up to a diagonal: each row has one more than the row above, from 0 up to `col`."""
    return _rising(row + offset) - _rising(offset) - _rising(row + offset - col) + _rising(offset - col)


def _rising(last: Dim) -> Dim:
    """1 + 2 + ... + last; 0 for what is below 1."""
    count = dm.maximum(last, 0)
    return dm.floordiv(count * (count + 1), 2)


def _triangle_places(name: str, row: int, col: int, offset: int) -> Any:
    inside = np.tri(row, col, offset if name == "tril" else offset - 1, np.bool_)
    return np.stack(np.nonzero(inside if name == "tril" else ~inside))


for _name, _words in (("tril", "lower"), ("triu", "upper")):
    define(
        f"aten::{_name}_indices(int row, int col, int offset=0, *, {OPTIONS}) -> Tensor",
        f"The rows and columns of the {_words} triangle of a row by col matrix, in order: [2, count].",
        type=_triangle_type(_name),
        kernel=lambda row, col, offset, dtype, device, name=_name: _triangle_places(name, row, col, offset).astype(
            (dtype or dt.int64).numpy
        ),
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        reference=lambda row, col, offset, dtype, device, name=_name: np.asarray(
            (np.tril_indices if name == "tril" else np.triu_indices)(row, offset, col), (dtype or dt.int64).numpy),
    )
