"""The NumPy value of any entry: `evaluate(op, args)` on ndarrays, out of place. Eager mode, the interpreter and foreign segments share it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from weft.ops.geometry import Geometry, outside_storage
from weft.ops.op import Op
from weft.ops.rules import Pointwise, normalize_dims
from weft.ops.scalar_numpy import NUMPY, copied_order, run_body
from weft.ops.sums import reducer
from weft.support.errors import StateError
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

Array = np.ndarray[Any, Any]
_rule_runner: list[Callable[[Any, tuple[Any, ...]], Any]] = []


def install_rule_runner(runner: Callable[[Any, tuple[Any, ...]], Any]) -> None:
    """Give `evaluate` the way to run decompositions on arrays (ops/array.py installs it)."""
    _rule_runner[:] = [runner]


def type_of(value: Any) -> Any:
    """What a type rule sees for an argument: TensorType for an ndarray, through tuples; other values as they are."""
    if isinstance(value, np.ndarray):
        return tensor_type(dt.from_numpy(value.dtype), value.shape)
    if type(value) is tuple or type(value) is list:
        return tuple(type_of(v) for v in value)
    return value


def evaluate(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's value on ndarrays in schema order: an ndarray, or a tuple of them. Views share memory with their base.

    Floating point exceptions are silent, as in PyTorch. Raises what the type rule raises.
    """
    return _EVALUATE[op.how](op, args)


def _evaluate_scalar(op: Op, args: tuple[Any, ...]) -> Any:
    rule = op.type
    types = tuple(type_of(a) for a in args)
    if isinstance(rule, Pointwise) and not any(isinstance(a, np.ndarray) for a in args):
        return _evaluate_numbers(op, rule, args)
    result: TensorType = rule(*types)  # type: ignore[misc]
    compute = rule.operand_dtype(types) if isinstance(rule, Pointwise) else None
    keep = rule.keep if isinstance(rule, Pointwise) else ()
    operands: list[Any] = []
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if argument.kind == "Scalar" and is_default(value, argument.default):
            operands.append(None)
            continue
        operands.append(_operand(argument.kind, value, None if argument.name in keep else compute))
    with np.errstate(all="ignore"):
        out = run_body(op.scalar, operands)  # type: ignore[arg-type]
        assert result.dtype is not None
        out = NUMPY.cast(np.asarray(out), result.dtype)
    if out.shape != result.dims:
        return np.broadcast_to(out, result.dims).copy()  # type: ignore[arg-type]
    return out.copy(order=copied_order(out)) if out.base is not None or any(out is a for a in args) else out  # results never share an operand's memory


def _evaluate_numbers(op: Op, rule: Pointwise, args: tuple[Any, ...]) -> Any:
    """A pointwise operator on Python numbers alone: a Python number, computed in float64, int64 or bool."""
    wide = rule.compute_dtype(args)
    operands = [
        None if a.kind == "Scalar" and is_default(v, a.default) else _operand(a.kind, v, wide) for a, v in zip(op.schema.arguments, args, strict=True)
    ]
    with np.errstate(all="ignore"):
        return NUMPY.cast(np.asarray(op.scalar(NUMPY, *operands)), rule.result_dtype(args)).item()  # type: ignore[misc]


def is_default(value: Any, default: Any) -> bool:
    """Whether a Scalar argument literally has its default; bodies then receive None, so that they can leave the work out."""
    return default is not None and type(value) in (int, float, bool) and value == default


def _operand(kind: str, value: Any, compute: DType | None) -> Any:
    if isinstance(value, np.ndarray):
        return value if compute is None else NUMPY.cast(value, compute)
    if kind in ("Tensor", "Scalar") and value is not None and compute is not None:
        return NUMPY.const(value, compute)
    return value


def _evaluate_reduce(op: Op, args: tuple[Any, ...]) -> Array:
    result: TensorType = op.type(*(type_of(a) for a in args))  # type: ignore[misc]
    x, dim, keepdim = reduce_arguments(op, args)
    assert op.reduce is not None and result.dtype is not None
    combine = op.reduce.combine
    if combine in ("argmax", "argmin"):
        return arg_reduce(combine, x, dim, keepdim)
    axes = normalize_dims(op.base, dim, x.ndim) if x.ndim else ()
    with np.errstate(all="ignore"):
        out = reducer(combine, axes, dt.compute_dtype(result.dtype).numpy, keepdim)(x)
        return np.asarray(out, order="C").astype(result.dtype.numpy, copy=False)


def reduce_arguments(op: Op, args: tuple[Any, ...]) -> tuple[Any, Any, bool]:
    """(self, dim, keepdim) of a reduction, whichever of them its schema has."""
    named = {a.name: v for a, v in zip(op.schema.arguments, args, strict=True)}
    return args[0], named.get("dim"), bool(named.get("keepdim", False))


def arg_reduce(combine: str, x: Array, dim: int | None, keepdim: bool) -> Array:
    """NumPy's argmax or argmin with PyTorch's rules for dims."""
    find = np.argmax if combine == "argmax" else np.argmin
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    if dim is None:
        out = np.asarray(find(x), np.int64)
        return out.reshape((1,) * x.ndim) if keepdim else out
    if x.ndim == 0:
        return np.zeros((), np.int64)
    return np.asarray(find(x, axis=dim, keepdims=keepdim), np.int64)


def _evaluate_kernel(op: Op, args: tuple[Any, ...]) -> Any:
    if op.type is not None:
        op.type(*(type_of(a) for a in args))
    with np.errstate(all="ignore"):
        return op.kernel(*args)  # type: ignore[misc]


def _evaluate_view(op: Op, args: tuple[Any, ...]) -> Any:
    view = op.view
    assert view is not None
    source: Array = args[0]
    if view.numpy is not None:
        fast = view.numpy(source, *args[1:])
        if fast is not None:
            return fast
    shape = view.geometry(geometry_of(source), *args[1:])
    if shape is None:
        copied = np.ascontiguousarray(source)
        shape = view.geometry(geometry_of(copied), *args[1:])
        source = copied
    if isinstance(shape, tuple):
        return tuple(strided(source, g) for g in shape)
    return strided(source, shape)


def geometry_of(x: Array) -> Geometry:
    """Dims and element strides of an array; offset 0 is its first element."""
    size = x.dtype.itemsize
    return Geometry(x.shape, tuple(s // size for s in x.strides), 0)


def strided(x: Array, g: Geometry) -> Array:
    """The view of `x`'s memory with this geometry, offset counted from x's first element."""
    size = x.dtype.itemsize
    root = dense_root(x)
    known: Any = g  # sizes of an array are numbers
    start = address(x) - address(root) + int(known.offset) * size
    strides = tuple(int(s) * size for s in known.strides)
    dims = tuple(map(int, known.dims))
    if 0 in dims:
        if not root.nbytes:
            return np.empty(dims, x.dtype)
        start = min(start, root.nbytes)
    try:
        view: Array = np.ndarray(dims, x.dtype, buffer=root, offset=start, strides=strides)
    except ValueError:
        raise outside_storage(Geometry(dims, known.strides, start // size), root.nbytes // size) from None
    return view


def dense_root(x: Array) -> Array:
    """x's memory as one flat array (roots that are dense in another order than row-major are read in memory order)."""
    root = root_of(x)
    if not root.flags.c_contiguous:
        root = root.ravel(order="K")
    return root


def root_of(x: Array) -> Array:
    """The contiguous array that owns (or stands for) x's memory."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def address(x: Array) -> int:
    """Address of x's first element."""
    return int(x.__array_interface__["data"][0])


def _evaluate_decompose(op: Op, args: tuple[Any, ...]) -> Any:
    if op.type is not None:
        op.type(*(type_of(a) for a in args))
    if not _rule_runner:
        raise StateError("no runner for decompositions is installed; import weft")
    return _rule_runner[0](op.decompose, args)


_EVALUATE: dict[str, Callable[[Op, tuple[Any, ...]], Any]] = {
    "scalar": _evaluate_scalar, "reduce": _evaluate_reduce, "kernel": _evaluate_kernel, "view": _evaluate_view,
    "decompose": _evaluate_decompose,
}


class _Probe:
    """Notes which methods of the scalar protocol a body calls, with what."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def method(*args: Any) -> Any:
            self.calls.append((name, args))
            return object()

        return method


@cache
def single_ufunc(op: Op) -> Any:
    """The ufunc of a pointwise entry whose whole body is one method that is a ufunc on like dtypes, else None (eager's fast path)."""
    if op.scalar is None or any(a.kind not in ("Tensor", "Scalar") for a in op.schema.arguments):
        return None  # a body that takes words or flags may do something else for others
    probe = _Probe()
    markers = [object() if a.kind == "Tensor" or (a.kind == "Scalar" and not a.has_default) else None for a in op.schema.arguments]
    try:
        op.scalar(probe, *markers)
    except Exception:  # a body that looks at its operands is not a single ufunc
        return None
    tensors = [m for m in markers if m is not None]
    if len(probe.calls) != 1 or list(probe.calls[0][1]) != tensors:
        return None
    found = getattr(NUMPY, probe.calls[0][0])
    return found if isinstance(found, np.ufunc) else None
