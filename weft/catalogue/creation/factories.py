"""Factories: tensors from sizes and numbers. Sizes may be symbolic everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.ops.batching import unary
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import check_fits, dims_text, kind_of_number
from weft.ops.scalar_numpy import NUMPY
from weft.support.errors import ShapeError, StateError, ValueProblem
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim, Expr
from weft.types.dtype import DType
from weft.types.promotion import number_dtype
from weft.types.tensor_type import TensorType, tensor_type

OPTIONS = "ScalarType? dtype=None, Device? device=None"


def checked_size(name: str, size: Sequence[Dim]) -> tuple[Dim, ...]:
    """The sizes of a new tensor. Raises ShapeError if one is negative."""
    shape_env.refuse_negative(
        size, lambda: ShapeError(f"{name}: Trying to create tensor with negative dimension: {dims_text(size)}")
    )
    return tuple(size)


def or_default(dtype: DType | None) -> DType:
    return dt.get_default() if dtype is None else dtype


def dtype_of_number(value: Any, dtype: DType | None) -> DType:
    """The dtype a factory gives a number: bool, int64, the default float, or its complex twin."""
    return number_dtype(kind_of_number(value)) if dtype is None else dtype


# ---- constants
def _constant(name: str, words: str, make: Callable[..., Any], fill: int) -> Op:
    return define(
        f"aten::{name}(int[] size, *, {OPTIONS}) -> Tensor",
        f"A tensor of the given size, {words}.",
        type=lambda size, dtype, device: tensor_type(or_default(dtype), checked_size(name, size), device or "cpu"),
        kernel=lambda size, dtype, device: make(size, or_default(dtype).numpy),
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
        out=True,
        reference=lambda size, dtype, device: make(size, or_default(dtype).numpy),
        fill=lambda *arguments: fill,
    )


zeros = _constant("zeros", "all 0", np.zeros, 0)
ones = _constant("ones", "all 1", np.ones, 1)
empty = _constant("empty", "its elements not to be relied on (they are 0)", np.zeros, 0)


def _full_type(size: Sequence[Dim], value: Any, dtype: DType | None, device: Any) -> TensorType:
    kind = dtype_of_number(value, dtype)
    check_fits(value, kind)
    return tensor_type(kind, checked_size("full", size), device or "cpu")


full = define(
    f"aten::full(int[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor",
    "A tensor of the given size, every element `fill_value`.",
    type=_full_type,
    kernel=lambda size, value, dtype, device: np.full(size, NUMPY.const(value, dtype_of_number(value, dtype))),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda size, value, dtype, device: np.full(size, value, dtype_of_number(value, dtype).numpy),
    fill=lambda size, value, dtype, device: value,
)

scalar_tensor = define(
    f"aten::scalar_tensor(Scalar s, *, {OPTIONS}) -> Tensor",
    "A 0-dim tensor with the value of a number.",
    type=lambda s, dtype, device: tensor_type(or_default(dtype), (), device or "cpu"),
    decompose=lambda s, dtype, device: aten.full((), s, dtype=or_default(dtype)),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    reference=lambda s, dtype, device: np.asarray(s, or_default(dtype).numpy),
)


def _like(name: str, words: str, make: Callable[..., Any], fill: str = "") -> None:
    """`name_like` and `new_name`: a factory with the sizes, or only the dtype, of another tensor."""
    value = ", Scalar fill_value" if fill else ""
    number = int(name == "ones")
    define(
        f"aten::{name}_like(Tensor self{value}, *, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
        f"A tensor of self's size and (unless given) dtype, {words}.",
        type=lambda self, *rest: self.with_dtype(_holding(rest[:-3], rest[-3] or self.dtype)),
        decompose=lambda self, *rest: make(self.dims, *rest[:-3], dtype=rest[-3] or self.dtype),
        vjp=NOT_DIFFERENTIABLE,
        batch=unary,
        like=True,
        fill=lambda self, *rest: rest[0] if fill else number,
        public=("weft",),
        reference=lambda self, *rest: np.full(
            self.shape, rest[0] if fill else number, _numpy_dtype(self, rest[-3])
        ),
    )
    define(
        f"aten::new_{name}(Tensor self, int[] size{value}, *, {OPTIONS}) -> Tensor",
        f"A tensor of the given size and (unless given) self's dtype, {words}.",
        type=lambda self, size, *rest: tensor_type(
            _holding(rest[:-2], rest[-2] or self.dtype), checked_size(f"new_{name}", size), self.device
        ),
        decompose=lambda self, size, *rest: make(size, *rest[:-2], dtype=rest[-2] or self.dtype),
        vjp=NOT_DIFFERENTIABLE,
        batch=lambda op, size, flags, self, dims, *rest: call(op, (self, (size, *dims), *rest)),
        like=True,
        fill=lambda self, size, *rest: rest[0] if fill else number,
        public=("Tensor",),
        reference=lambda self, size, *rest: np.full(
            size, rest[0] if fill else number, _numpy_dtype(self, rest[-2])
        ),
    )


def _holding(values: Sequence[Any], dtype: DType) -> DType:
    """The dtype, once it is known to hold these numbers."""
    for value in values:
        check_fits(value, dtype)
    return dtype


def _numpy_dtype(x: Any, dtype: DType | None) -> Any:
    return x.dtype if dtype is None else dtype.numpy


_like("zeros", "all 0", lambda size, dtype: aten.zeros(size, dtype=dtype))
_like("ones", "all 1", lambda size, dtype: aten.ones(size, dtype=dtype))
_like("empty", "its elements not to be relied on", lambda size, dtype: aten.empty(size, dtype=dtype))
_like(
    "full", "every element `fill_value`", lambda size, value, dtype: aten.full(size, value, dtype=dtype),
    fill="fill_value",
)


# ---- ranges
iota = define(
    "aten::_iota(int size) -> Tensor",
    "0, 1, ..., size - 1 as int64: what every range and index grid is made of.",
    type=lambda size: tensor_type(dt.int64, (size,)),
    kernel=lambda size: np.arange(size, dtype=np.int64),
    vjp=NOT_DIFFERENTIABLE,
    public=(),
    reference=lambda size: np.arange(size),
    counts=True,
)


def range_size(start: Any, end: Any, step: Any) -> Dim:
    """How many steps lead from start to before end. Raises StateError for a step of 0 or in the wrong direction."""
    if not isinstance(step, Expr) and step == 0:
        raise StateError("arange: step must be nonzero")
    if all(isinstance(v, (int, Expr)) for v in (start, end, step)):
        return _integer_range_size(start, end, step)
    start, end, step = map(_known, (start, end, step))
    for value in (start, end):
        if not math.isfinite(value):
            raise StateError(f"arange: unsupported range: {start} -> {end}")
    steps = (float(end) - float(start)) / float(step)
    if steps < 0:
        raise StateError("arange: upper bound and lower bound inconsistent with step sign")
    return math.ceil(steps)


def _known(value: Any) -> Any:
    """A symbol's value, guarded: steps of a fraction leave no formula for how many there are."""
    return shape_env.fixed(value) if isinstance(value, Expr) else value


def _integer_range_size(start: Dim, end: Dim, step: Dim) -> Dim:
    distance = end - start
    shape_env.refuse_equal(step, 0, lambda: StateError("arange: step must be nonzero"))
    if shape_env.less(step, 0):
        distance, step = -distance, -step
    if isinstance(distance, int) and isinstance(step, int):
        if distance < 0:
            raise StateError("arange: upper bound and lower bound inconsistent with step sign")
        return -(-distance // step)
    shape_env.refuse_less(
        distance, 0, lambda: StateError("arange: upper bound and lower bound inconsistent with step sign")
    )
    steps = dm.floordiv(distance + step - 1, step)
    return steps if isinstance(start, int) and start == 0 else dm.maximum(steps, 0)


def _range_dtype(start: Any, end: Any, step: Any, dtype: DType | None) -> DType:
    if dtype is not None:
        return dtype
    kinds = [kind_of_number(v) for v in (start, end, step)]
    return dt.int64 if all(k in (int, bool) for k in kinds) else dt.get_default()


def _whole(start: Any, end: Any, step: Any, dtype: DType | None) -> tuple[Any, ...]:
    """The bounds and the step of a range of int64: cut off before anything is counted, as in PyTorch.
    Raises ValueProblem for a step cut to 0."""
    if dtype is not dt.int64:
        return start, end, step
    cut = tuple(int(v) if isinstance(v, float) and math.isfinite(v) else v for v in (start, end, step))
    if _is_number(cut[2], 0) and not _is_number(step, 0):
        raise ValueProblem(
            f"arange: step must be nonzero, and {step} is 0 in {dtype}; give a step of at least 1, "
            "or a floating point dtype"
        )
    return cut


def _range_type(start: Any, end: Any, step: Any, dtype: DType | None, device: str | None) -> TensorType:
    start, end, step = _whole(start, end, step, dtype)
    return tensor_type(_range_dtype(start, end, step, dtype), (range_size(start, end, step),), device or "cpu")


def _is_number(value: Any, expected: int) -> bool:
    return not isinstance(value, Expr) and value == expected


def _is_float(bound: Any) -> bool:
    """Whether how long a range is hangs on a fraction, which no size can be a formula of."""
    return isinstance(bound, float)


def _range(start: Any, end: Any, step: Any, dtype: DType | None, device: str | None) -> Any:
    """start + step * index, in int64 or float64, then cast (so that float32 ranges do not drift)."""
    start, end, step = _whole(start, end, step, dtype)
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
    return np.arange(*_whole(start, end, step, dtype)).astype(_range_dtype(start, end, step, dtype).numpy)


arange = define(
    f"aten::arange(Scalar end, *, {OPTIONS}) -> Tensor",
    "0, 1, ... up to but not including `end`.",
    type=lambda end, dtype, device: _range_type(0, end, 1, dtype, device),
    decompose=lambda end, dtype, device: _range(0, end, 1, dtype, device),
    specialize={"end": _is_float},
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda end, dtype, device: _numpy_range(0, end, 1, dtype, device),
)

arange_start_step = define(
    f"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor",
    "start, start + step, ... up to but not including `end`.",
    type=_range_type,
    decompose=_range,
    specialize={"start": _is_float, "end": _is_float, "step": _is_float},
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=_numpy_range,
)


def _empty_strided(size: Sequence[Dim], stride: Sequence[Dim], dtype: DType | None, device: str | None) -> Any:
    """A storage that the farthest element just fits in, shown with these strides."""
    if len(size) != len(stride):
        raise ShapeError(f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})")
    dims = checked_size("empty_strided", size)
    reach: Dim = 1
    for d, s in zip(dims, stride, strict=True):
        reach = reach + (d - 1) * s
    nothing = any(isinstance(d, int) and d == 0 for d in dims)
    return aten.as_strided(aten.empty((0 if nothing else reach,), dtype=dtype), dims, tuple(stride))


define(
    f"aten::empty_strided(int[] size, int[] stride, *, {OPTIONS}) -> Tensor",
    "A tensor of the given size and strides, its elements not to be relied on.",
    decompose=_empty_strided,
    public=("weft",),
)

define(
    f"aten::new_empty_strided(Tensor self, int[] size, int[] stride, *, {OPTIONS}) -> Tensor",
    "A tensor of the given size and strides and the type of self, its elements not to be relied on.",
    decompose=lambda self, size, stride, dtype, device: aten.empty_strided(size, stride, dtype=dtype or self.dtype),
    public=("Tensor",),
)


def _empty_permuted(size: Sequence[Dim], order: Sequence[int], dtype: DType | None) -> Any:
    if sorted(order) != list(range(len(size))):
        raise ShapeError(f"empty_permuted: physical_layout {list(order)} is no order of {len(size)} dims")
    physical = aten.empty(tuple(size[i] for i in order), dtype=dtype)
    return aten.permute(physical, tuple(order.index(i) for i in range(len(size))))


define(
    f"aten::empty_permuted(int[] size, int[] physical_layout, *, {OPTIONS}) -> Tensor",
    "A dense tensor of the given size, its elements not to be relied on; `physical_layout` names its dims from the "
    "outermost in memory inwards.",
    decompose=lambda size, physical_layout, dtype, device: _empty_permuted(size, tuple(physical_layout), dtype),
    public=("weft",),
)


def _eye(rows: Dim, columns: Dim, dtype: DType | None) -> Any:
    on_diagonal = aten.eq(aten.unsqueeze(aten._iota(rows), 1), aten._iota(columns))
    return aten._to_copy(on_diagonal, dtype=or_default(dtype))


def _eye_type(rows: Dim, columns: Dim, dtype: DType | None, device: str | None) -> TensorType:
    return tensor_type(or_default(dtype), checked_size("eye", (rows, columns)), device or "cpu")


eye = define(
    f"aten::eye(int n, *, {OPTIONS}) -> Tensor",
    "The identity matrix.",
    type=lambda n, dtype, device: _eye_type(n, n, dtype, device),
    decompose=lambda n, dtype, device: _eye(n, n, dtype),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda n, dtype, device: np.eye(n, dtype=or_default(dtype).numpy),
)

eye_m = define(
    f"aten::eye.m(int n, int? m, *, {OPTIONS}) -> Tensor",
    "An n by m matrix with 1 on the diagonal; n by n where m is None.",
    type=lambda n, m, dtype, device: _eye_type(n, n if m is None else m, dtype, device),
    decompose=lambda n, m, dtype, device: _eye(n, n if m is None else m, dtype),
    vjp=NOT_DIFFERENTIABLE,
    public=("weft",),
    out=True,
    reference=lambda n, m, dtype, device: np.eye(n, m, dtype=or_default(dtype).numpy),
)
