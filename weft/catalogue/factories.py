"""Factories: tensors from sizes and numbers. Sizes may be symbolic everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text, kind_of_number
from weft.support.errors import ShapeError, StateError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr
from weft.types.dtype import DType
from weft.types.promotion import number_dtype
from weft.types.tensor_type import TensorType, tensor_type

_OPTIONS = "ScalarType? dtype=None, Device? device=None"


def _checked(name: str, size: Sequence[Dim]) -> tuple[Dim, ...]:
    if any(isinstance(d, int) and d < 0 for d in size):
        raise ShapeError(f"{name}: Trying to create tensor with negative dimension: {dims_text(size)}")
    return tuple(size)


def _or_default(dtype: DType | None) -> DType:
    return dt.get_default() if dtype is None else dtype


def dtype_of_number(value: Any, dtype: DType | None) -> DType:
    """The dtype a factory gives a number: bool, int64, the default float, or its complex twin."""
    return number_dtype(kind_of_number(value)) if dtype is None else dtype


# ---- constants
def _constant(name: str, words: str, make: Callable[..., Any]) -> Op:
    return define(
        f"aten::{name}(int[] size, *, {_OPTIONS}) -> Tensor",
        f"A tensor of the given size, {words}.",
        type=lambda size, dtype, device: tensor_type(_or_default(dtype), _checked(name, size), device or "cpu"),
        kernel=lambda size, dtype, device: make(size, _or_default(dtype).numpy),
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        out=True,
        reference=lambda size, dtype, device: make(size, _or_default(dtype).numpy),
    )


zeros = _constant("zeros", "all 0", np.zeros)
ones = _constant("ones", "all 1", np.ones)
empty = _constant("empty", "its elements not to be relied on (they are 0)", np.zeros)

full = define(
    f"aten::full(int[] size, Scalar fill_value, *, {_OPTIONS}) -> Tensor",
    "A tensor of the given size, every element `fill_value`.",
    type=lambda size, value, dtype, device: tensor_type(dtype_of_number(value, dtype), _checked("full", size), device or "cpu"),
    kernel=lambda size, value, dtype, device: np.full(size, value, dtype_of_number(value, dtype).numpy),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda size, value, dtype, device: np.full(size, value, dtype_of_number(value, dtype).numpy),
)

scalar_tensor = define(
    f"aten::scalar_tensor(Scalar s, *, {_OPTIONS}) -> Tensor",
    "A 0-dim tensor with the value of a number.",
    type=lambda s, dtype, device: tensor_type(_or_default(dtype), (), device or "cpu"),
    decompose=lambda s, dtype, device: aten.full((), s, dtype=_or_default(dtype)),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    reference=lambda s, dtype, device: np.asarray(s, _or_default(dtype).numpy),
)


def _like(name: str, words: str, make: Callable[..., Any], fill: str = "") -> None:
    """`name_like` and `new_name`: a factory with the sizes, or only the dtype, of another tensor."""
    value = ", Scalar fill_value" if fill else ""
    define(
        f"aten::{name}_like(Tensor self{value}, *, {_OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
        f"A tensor of self's size and (unless given) dtype, {words}.",
        type=lambda self, *rest: self.with_dtype(rest[-3] or self.dtype),
        decompose=lambda self, *rest: make(self.dims, *rest[:-3], dtype=rest[-3] or self.dtype),
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        reference=lambda self, *rest: np.full(self.shape, rest[0] if fill else float(name == "ones"), _numpy_dtype(self, rest[-3])),
    )
    define(
        f"aten::new_{name}(Tensor self, int[] size{value}, *, {_OPTIONS}) -> Tensor",
        f"A tensor of the given size and (unless given) self's dtype, {words}.",
        type=lambda self, size, *rest: tensor_type(rest[-2] or self.dtype, _checked(f"new_{name}", size), self.device),
        decompose=lambda self, size, *rest: make(size, *rest[:-2], dtype=rest[-2] or self.dtype),
        vjp=NOT_DIFFERENTIABLE,
        public=("Tensor",),
        reference=lambda self, size, *rest: np.full(size, rest[0] if fill else float(name == "ones"), _numpy_dtype(self, rest[-2])),
    )


def _numpy_dtype(x: Any, dtype: DType | None) -> Any:
    return x.dtype if dtype is None else dtype.numpy


_like("zeros", "all 0", lambda size, dtype: aten.zeros(size, dtype=dtype))
_like("ones", "all 1", lambda size, dtype: aten.ones(size, dtype=dtype))
_like("empty", "its elements not to be relied on", lambda size, dtype: aten.empty(size, dtype=dtype))
_like("full", "every element `fill_value`", lambda size, value, dtype: aten.full(size, value, dtype=dtype), fill="fill_value")


# ---- ranges
iota = define(
    "aten::_iota(int size) -> Tensor",
    "0, 1, ..., size - 1 as int64: what every range and index grid is made of.",
    type=lambda size: tensor_type(dt.int64, (size,)),
    kernel=lambda size: np.arange(size, dtype=np.int64),
    vjp=NOT_DIFFERENTIABLE,
    public=(),
    reference=lambda size: np.arange(size),
)


def range_size(start: Any, end: Any, step: Any) -> Dim:
    """How many steps lead from start to before end. Raises StateError for a step of 0 or in the wrong direction."""
    if not isinstance(step, Expr) and step == 0:
        raise StateError("arange: step must be nonzero")
    if all(isinstance(v, (int, Expr)) for v in (start, end, step)):
        return _integer_range_size(start, end, step)
    for value in (start, end):
        if not math.isfinite(value):
            raise StateError(f"arange: unsupported range: {start} -> {end}")
    steps = (float(end) - float(start)) / float(step)
    if steps < 0:
        raise StateError("arange: upper bound and lower bound inconsistent with step sign")
    return math.ceil(steps)


def _integer_range_size(start: Dim, end: Dim, step: Dim) -> Dim:
    distance = end - start
    if isinstance(step, int) and step < 0:
        distance, step = -distance, -step
    if isinstance(distance, int) and isinstance(step, int):
        if distance < 0:
            raise StateError("arange: upper bound and lower bound inconsistent with step sign")
        return -(-distance // step)
    steps = dm.floordiv(distance + step - 1, step)
    return steps if isinstance(start, int) and start == 0 else dm.maximum(steps, 0)


def _range_dtype(start: Any, end: Any, step: Any, dtype: DType | None) -> DType:
    if dtype is not None:
        return dtype
    kinds = [kind_of_number(v) for v in (start, end, step)]
    return dt.int64 if all(k in (int, bool) for k in kinds) else dt.get_default()


def _range_type(start: Any, end: Any, step: Any, dtype: DType | None, device: str | None) -> TensorType:
    return tensor_type(_range_dtype(start, end, step, dtype), (range_size(start, end, step),), device or "cpu")


def _is_number(value: Any, expected: int) -> bool:
    return not isinstance(value, Expr) and value == expected


def _range(start: Any, end: Any, step: Any, dtype: DType | None, device: str | None) -> Any:
    """start + step * index, in int64 or float64, then cast (so that float32 ranges do not drift)."""
    target = _range_dtype(start, end, step, dtype)
    steps = aten._iota(range_size(start, end, step))
    if target.is_differentiable and any(kind_of_number(v) is float for v in (start, step)):
        steps = aten._to_copy(steps, dtype=dt.float64)
    if not _is_number(step, 1):
        steps = aten.mul(steps, step)
    if not _is_number(start, 0):
        steps = aten.add(steps, start)
    return steps if steps.dtype is target else aten._to_copy(steps, dtype=target)


def _numpy_range(start: Any, end: Any, step: Any, dtype: DType | None, device: str | None) -> Any:
    return np.arange(start, end, step).astype(_range_dtype(start, end, step, dtype).numpy)


arange = define(
    f"aten::arange(Scalar end, *, {_OPTIONS}) -> Tensor",
    "0, 1, ... up to but not including `end`.",
    type=lambda end, dtype, device: _range_type(0, end, 1, dtype, device),
    decompose=lambda end, dtype, device: _range(0, end, 1, dtype, device),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda end, dtype, device: _numpy_range(0, end, 1, dtype, device),
)

arange_start_step = define(
    f"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {_OPTIONS}) -> Tensor",
    "start, start + step, ... up to but not including `end`.",
    type=_range_type,
    decompose=_range,
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=_numpy_range,
)


def _space_type(start: Any, end: Any, steps: Dim, dtype: DType | None, device: str | None) -> TensorType:
    if isinstance(steps, int) and steps < 0:
        raise StateError("linspace: number of steps must be non-negative")
    return tensor_type(_or_default(dtype), (steps,), device or "cpu")


def _linspace(start: Any, end: Any, steps: Dim, dtype: DType | None, device: str | None) -> Any:
    """From both ends towards the middle, so that the last element is `end` exactly."""
    target = _or_default(dtype)
    index = aten._iota(steps)
    at = aten._to_copy(index, dtype=dt.complex128 if target.is_complex else dt.float64)
    whole = aten.sub(end, start) if hasattr(type(end), "__weft_route__") or hasattr(type(start), "__weft_route__") else end - start
    step = aten.div(aten.full((), whole, dtype=at.dtype), dm.maximum(steps - 1, 1))
    from_start = aten.add(at * step, start)
    from_end = aten.sub(end, aten.rsub(at, steps - 1) * step)
    out = aten.where(aten.lt(index, dm.floordiv(steps, 2)), from_start, aten.where(aten.eq(index, 0), start, from_end))
    return aten._to_copy(out, dtype=target)


def _ends_type(start: Any, end: Any, steps: Dim, dtype: DType | None, device: str | None) -> TensorType:
    ends = [v for v in (start, end) if isinstance(v, TensorType)]
    if any(v.dims is not None and v.ndim for v in ends):
        raise ShapeError("linspace only supports 0-dimensional start and end tensors")
    return _space_type(0, 0, steps, dtype, device or ends[0].device)


def _between(start: Any, end: Any, steps: Dim, dtype: DType | None, device: str | None) -> Any:
    """_linspace where an end is a tensor, whose value is not asked for."""
    target = _or_default(dtype)
    wide = dt.complex128 if target.is_complex else dt.float64
    first, last = (aten._to_copy(v, dtype=wide) if hasattr(type(v), "__weft_route__") else v for v in (start, end))
    index = aten._iota(steps)
    at = aten._to_copy(index, dtype=wide)
    step = (last - first) / dm.maximum(steps - 1, 1)
    back = aten.sub(last, aten.rsub(at, steps - 1) * step)
    out = aten.where(aten.lt(index, dm.floordiv(steps, 2)), aten.add(at * step, first), aten.where(aten.eq(index, 0), first, back))
    return aten._to_copy(out, dtype=target)


for _ends, _arguments in (
    ("Tensor_Tensor", "Tensor start, Tensor end"), ("Tensor_Scalar", "Tensor start, Scalar end"), ("Scalar_Tensor", "Scalar start, Tensor end"),
):
    define(
        f"aten::linspace.{_ends}({_arguments}, int steps, *, {_OPTIONS}) -> Tensor",
        "`steps` numbers, evenly spaced between ends that 0-dim tensors hold.",
        type=_ends_type,
        decompose=_between,
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        out=True,
        reference=lambda start, end, steps, dtype, device: np.linspace(start, end, steps).astype(_or_default(dtype).numpy),
    )

linspace = define(
    f"aten::linspace(Scalar start, Scalar end, int steps, *, {_OPTIONS}) -> Tensor",
    "`steps` numbers, evenly spaced from `start` to `end`, both included.",
    type=_space_type,
    decompose=_linspace,
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda start, end, steps, dtype, device: np.linspace(start, end, steps).astype(_or_default(dtype).numpy),
)

def _powers_between(start: Any, end: Any, steps: Dim, base: float, dtype: DType | None, device: str | None) -> Any:
    """In double precision, complex where an end is."""
    found = [getattr(v, "dtype", None) for v in (start, end)]
    wide = dt.complex128 if any(d is not None and d.is_complex for d in found) else dt.float64
    return aten._to_copy(aten.pow(base, aten.linspace(start, end, steps, dtype=wide)), dtype=_or_default(dtype))


for _ends, _arguments in (
    ("Tensor_Tensor", "Tensor start, Tensor end"), ("Tensor_Scalar", "Tensor start, Scalar end"), ("Scalar_Tensor", "Scalar start, Tensor end"),
):
    define(
        f"aten::logspace.{_ends}({_arguments}, int steps, float base=10.0, *, {_OPTIONS}) -> Tensor",
        "`base` to the power of `steps` numbers evenly spaced between ends that 0-dim tensors hold.",
        type=lambda start, end, steps, base, dtype, device: _ends_type(start, end, steps, dtype, device),
        decompose=_powers_between,
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        out=True,
        reference=lambda start, end, steps, base, dtype, device: np.logspace(start, end, steps, base=base).astype(_or_default(dtype).numpy),
    )

logspace = define(
    f"aten::logspace(Scalar start, Scalar end, int steps, float base=10.0, *, {_OPTIONS}) -> Tensor",
    "`base` to the power of `steps` numbers evenly spaced from `start` to `end`.",
    type=lambda start, end, steps, base, dtype, device: _space_type(start, end, steps, dtype, device),
    decompose=lambda start, end, steps, base, dtype, device: aten._to_copy(
        aten.pow(base, aten.linspace(start, end, steps, dtype=dt.float64)), dtype=_or_default(dtype)),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda start, end, steps, base, dtype, device: np.logspace(start, end, steps, base=base).astype(_or_default(dtype).numpy),
)


def _triangle_type(name: str) -> Callable[..., TensorType]:
    def rule(row: int, col: int, offset: int, dtype: DType | None, device: str | None) -> TensorType:
        for what, n in (("row", row), ("col", col)):
            if n < 0:
                raise ShapeError(f"{what} must be non-negative, got {n}")
        if dtype is not None and (dtype.is_differentiable or dtype is dt.bool_):
            raise ShapeError(f'"{name}_indices" not implemented for {dtype}')
        return tensor_type(dtype or dt.int64, (2, _triangle_places(name, row, col, offset).shape[1]), device or "cpu")

    return rule


def _triangle_places(name: str, row: int, col: int, offset: int) -> Any:
    inside = np.tri(row, col, offset if name == "tril" else offset - 1, np.bool_)
    return np.stack(np.nonzero(inside if name == "tril" else ~inside))


for _name, _words in (("tril", "lower"), ("triu", "upper")):
    define(
        f"aten::{_name}_indices(int row, int col, int offset=0, *, {_OPTIONS}) -> Tensor",
        f"The rows and columns of the {_words} triangle of a row by col matrix, in order: [2, count].",
        type=_triangle_type(_name),
        kernel=lambda row, col, offset, dtype, device, name=_name: _triangle_places(name, row, col, offset).astype((dtype or dt.int64).numpy),
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        reference=lambda row, col, offset, dtype, device, name=_name: np.asarray(
            (np.tril_indices if name == "tril" else np.triu_indices)(row, offset, col), (dtype or dt.int64).numpy),
    )


def _empty_strided(size: Sequence[Dim], stride: Sequence[Dim], dtype: DType | None, device: str | None) -> Any:
    """A storage that the farthest element just fits in, shown with these strides."""
    if len(size) != len(stride):
        raise ShapeError(f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})")
    dims = _checked("empty_strided", size)
    reach: Dim = 1
    for d, s in zip(dims, stride, strict=True):
        reach = reach + (d - 1) * s
    nothing = any(isinstance(d, int) and d == 0 for d in dims)
    return aten.as_strided(aten.empty((0 if nothing else reach,), dtype=dtype), dims, tuple(stride))


define(
    f"aten::empty_strided(int[] size, int[] stride, *, {_OPTIONS}) -> Tensor",
    "A tensor of the given size and strides, its elements not to be relied on.",
    decompose=_empty_strided,
    public=("weft",),
)


def _eye(rows: Dim, columns: Dim, dtype: DType | None) -> Any:
    on_diagonal = aten.eq(aten.unsqueeze(aten._iota(rows), 1), aten._iota(columns))
    return aten._to_copy(on_diagonal, dtype=_or_default(dtype))


def _eye_type(rows: Dim, columns: Dim, dtype: DType | None, device: str | None) -> TensorType:
    return tensor_type(_or_default(dtype), _checked("eye", (rows, columns)), device or "cpu")


eye = define(
    f"aten::eye(int n, *, {_OPTIONS}) -> Tensor",
    "The identity matrix.",
    type=lambda n, dtype, device: _eye_type(n, n, dtype, device),
    decompose=lambda n, dtype, device: _eye(n, n, dtype),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda n, dtype, device: np.eye(n, dtype=_or_default(dtype).numpy),
)

eye_m = define(
    f"aten::eye.m(int n, int m, *, {_OPTIONS}) -> Tensor",
    "An n by m matrix with 1 on the diagonal.",
    type=_eye_type,
    decompose=lambda n, m, dtype, device: _eye(n, m, dtype),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda n, m, dtype, device: np.eye(n, m, dtype=_or_default(dtype).numpy),
)
