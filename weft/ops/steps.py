"""Steps: one operator on arguments of known dtypes and shapes as one NumPy call, its type rule asked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weft.ops import compute
from weft.ops.compute import is_default, reduce_arguments
from weft.ops.geometry import Geometry, contiguous_strides
from weft.ops.op import Op
from weft.ops.rules import Pointwise, normalize_dims
from weft.ops.scalar_numpy import NUMPY, copied_order
from weft.ops.straight import straight
from weft.ops.sums import reducer
from weft.types import dtype as dt
from weft.types.dtype import DType

ndarray = np.ndarray
Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


class Operand(NamedTuple):
    """What a step reads: the argument at `position` (converted, if need be), or a constant."""

    position: int | None
    value: Any = None
    convert: Function | None = None

    def of(self, args: tuple[Any, ...]) -> Any:
        """Its value."""
        if self.position is None:
            return self.value
        return args[self.position] if self.convert is None else self.convert(args[self.position])


Step = tuple[Function, list[Operand]]


def step_of(op: Op, args: tuple[Any, ...]) -> Step:
    """The NumPy call for an entry that is not a composite, on ndarrays in schema order, and what it reads of them. Raises what the type rule raises.

    The call serves all arguments with the same dtypes, shapes and other values; its results own their memory, but for views.
    """
    if op.scalar is not None and isinstance(op.type, Pointwise) and any(type(a) is ndarray for a in args):
        return _pointwise(op, op.type, args)
    if op.reduce is not None:
        return _reduction(op, args)
    if op.view is not None:
        return _view(op, args)
    if op.kernel is not None:
        if op.type is not None:
            op.type(*[compute.type_of(a) for a in args])
        kernel = op.kernel
        return (lambda *values: fresh(kernel(*values))), _as_given(args)
    return (lambda *values: compute.evaluate(op, values)), _as_given(args)


def _as_given(args: tuple[Any, ...]) -> list[Operand]:
    return [Operand(i) if _has_arrays(a) else Operand(None, a) for i, a in enumerate(args)]


def _has_arrays(value: Any) -> bool:
    return type(value) is ndarray or (type(value) is tuple and any(_has_arrays(v) for v in value))


def fresh(value: Any) -> Any:
    """A kernel's results, row-major and with memory of their own."""
    if type(value) is ndarray:
        return value if value.base is None and value.flags.c_contiguous else value.copy()
    if isinstance(value, (tuple, list)):
        return tuple([fresh(v) for v in value])
    return np.asarray(value) if isinstance(value, np.generic) else value


# ---- pointwise


def _pointwise(op: Op, rule: Pointwise, args: tuple[Any, ...]) -> Step:
    types = tuple([compute.type_of(a) for a in args])
    result = rule(*types)
    wide = rule.operand_dtype(types)
    operands = [_operand(a.kind, a.default, a.name in rule.keep, v, i, wide) for i, (a, v) in enumerate(zip(op.schema.arguments, args, strict=True))]
    assert result.dtype is not None and op.scalar is not None
    values = [o.of(args) for o in operands]
    ufunc = compute.single_ufunc(op)
    if ufunc is not None and all(o.position is None and o.value is None for o in operands[ufunc.nin :]):
        tried = ufunc(*values[: ufunc.nin])
        if tried.dtype == result.dtype.numpy:
            return (ufunc if type(tried) is ndarray else _as_array(ufunc)), operands[: ufunc.nin]
    body = straight(op.scalar, result.dtype.numpy, finish_as(result.dtype), tuple(values))
    return (body if type(body(*values)) is ndarray else _as_array(body)), operands


def _operand(kind: str, default: Any, keeps: bool, value: Any, position: int, wide: DType) -> Operand:
    if type(value) is ndarray:
        needs_cast = not keeps and value.dtype != wide.numpy
        return Operand(position, None, (lambda x: NUMPY.cast(x, wide)) if needs_cast else None)
    if kind == "Scalar" and is_default(value, default):
        return Operand(None, None)
    if kind in ("Tensor", "Scalar") and value is not None and not keeps:
        return Operand(None, NUMPY.const(value, wide))
    return Operand(None, value)


def _as_array(function: Function) -> Function:
    return lambda *values: np.asarray(function(*values))


def finish_as(result: DType) -> Function:
    """Gives a body's value the dtype, memory and shape that a result has."""
    target = result.numpy

    def finish(out: Any, operands: tuple[Any, ...]) -> Any:
        if type(out) is not ndarray:
            out = np.asarray(out)
        if out.dtype != target:
            out = NUMPY.cast(out, result)
        return own(out, operands)

    return finish


def own(out: Any, operands: tuple[Any, ...]) -> Any:
    """A body may hand an operand back (or ignore one that broadcasts): results own their memory and have the joint shape."""
    arrays = [o for o in operands if type(o) is ndarray]
    shape = np.broadcast_shapes(*[a.shape for a in arrays]) if len(arrays) > 1 else (arrays[0].shape if arrays else ())
    if out.shape != shape:
        return np.broadcast_to(out, shape).copy()
    if out.base is not None or any(out is a for a in arrays):
        return out.copy(order=copied_order(out))
    return out


# ---- reductions and views
def _reduction(op: Op, args: tuple[Any, ...]) -> Step:
    result = op.type(*[compute.type_of(a) for a in args])  # type: ignore[misc]
    x, dim, keepdim = reduce_arguments(op, args)
    assert op.reduce is not None and result.dtype is not None
    combine = op.reduce.combine
    if combine in ("argmax", "argmin"):
        return (lambda v: compute.arg_reduce(combine, v, dim, keepdim)), [Operand(0)]
    axes = normalize_dims(op.base, dim, x.ndim) if x.ndim else ()
    target = result.dtype.numpy
    reduce = reducer(combine, axes, dt.compute_dtype(result.dtype).numpy, keepdim)

    def run(v: Array) -> Array:
        out = np.asarray(reduce(v), order="C")
        return out if out.dtype == target else out.astype(target)

    return run, [Operand(0)]


def _view(op: Op, args: tuple[Any, ...]) -> Step:
    source, rest = args[0], args[1:]
    view = op.view
    assert view is not None
    if view.numpy is not None and view.numpy(*args) is not None:
        numpy = view.numpy
        return (lambda x: numpy(x, *rest)), [Operand(0)]
    if source.flags.c_contiguous and source.size:
        shape = view.geometry(compute.geometry_of(source), *rest)
        if isinstance(shape, Geometry) and not shape.offset and shape.strides == contiguous_strides(shape.dims):
            dims = shape.dims
            return (lambda x: x.reshape(dims) if x.flags.c_contiguous else compute.evaluate(op, (x, *rest))), [Operand(0)]
    return (lambda x: compute.evaluate(op, (x, *rest))), [Operand(0)]
