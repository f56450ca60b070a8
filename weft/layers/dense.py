"""The dense back end: NumPy computes, results are wrapped, views share storage. What a call does in NumPy is a plan
(ops/plan.py).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from weft.functionalizer.memory_format import orders_said
from weft.layers import dense_memory
from weft.ops import compute
from weft.ops.geometry import contiguous_strides
from weft.ops.layout import Orders, like_strides
from weft.ops.op import Op
from weft.ops.plan import LARGE
from weft.ops.planned import sign
from weft.ops.quiet import quiet
from weft.ops.rules import Pointwise
from weft.ops.scalar_numpy import NUMPY
from weft.ops.tracing import Untraceable
from weft.runtime.storage import Storage
from weft.support import limits
from weft.support.errors import ShapeError, StateError
from weft.support.locations import user_mark
from weft.support.memo import Memo
from weft.tensor import planned
from weft.tensor.backend import DENSE_RANK, Args, Backend, register, type_of
from weft.tensor.dense import DensePayload
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.views import forget_base, view_of
from weft.types import dtype as dt
from weft.types import promotion
from weft.types.tensor_type import TensorType
from weft.types.unbacked import alive, numbers_in

ndarray = np.ndarray
Array = np.ndarray[Any, Any]


class Dense(Backend):
    """Tensors whose payload is an ndarray; also what makes tensors where no device is named."""

    rank = DENSE_RANK
    device = "cpu"

    def run(self, op: Op, args: Args) -> Any:
        """The operator's value by NumPy."""
        if alive[0]:
            args = numbers_in(args)
        if op.view is not None:
            return run_view(op, args)
        try:
            out = planned.run(op, args)
        except (ValueError, TypeError):
            if op.type is not None:
                op.type(*[type_of(a) for a in args])
            raise
        if out is not planned.NOT_PLANNED:
            return out
        if op.decompose is not None:
            return _placed(op, args, forget_base(self.open(op, args)))
        return _placed(op, args, wrap(compute.evaluate(op, unwrap(args))))

    def write(self, op: Op, args: Args) -> None:
        """Put the value into the bytes of args[0]."""
        write(op, numbers_in(args) if alive[0] else args)

    def orders_of(self, op: Op, args: Args) -> Orders | None:
        """As the arrays lie."""
        return orders_said(op, args, None)

    def constants(self, args: Args) -> AbstractContextManager[None]:
        """They go down the layers like any others."""
        return nullcontext()

    def compose(self, op: Op, args: Args) -> Any:
        """By its plan where it has one; else it is opened."""
        if alive[0]:
            args = numbers_in(args)
        out = planned.run(op, args)
        return self.open(op, args) if out is planned.NOT_PLANNED else out

    def fits(self, op: Op, args: Args) -> bool:
        """Whether it is a pointwise operator on arrays of one float dtype and shape, and numbers, or what was found
        to fit before."""
        return (isinstance(op.type, Pointwise) and _all_alike(args)) or _has_fitted(op, args)

    def receive(self, tensor: Tensor) -> Tensor:
        """The values of a tensor of another device."""
        return tensor_around(tensor._data if type(tensor._data) is ndarray else tensor._data.fetched())

    def lay_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """The same values, in memory as the source's dims lie."""
        data = source._data
        if (type(data) is ndarray and data.flags.c_contiguous) or type(tensor._data) is not ndarray:
            return tensor
        strides: Any = like_strides(source.geometry())  # of bytes: numbers
        if strides != contiguous_strides(source.dims):
            tensor._data = compute.with_strides(tensor._data, strides)
            tensor._storage = Storage(tensor._data)
        return tensor

    def resize(self, tensor: Tensor, dims: tuple[int, ...]) -> None:
        """In its own memory, or in a larger one."""
        dense_memory.resize(tensor, dims)

    def show(self, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
        """The memory of another dense tensor, or of a storage."""
        tensor._data, tensor._storage = dense_memory.shown(tensor, source, offset, size, stride)


DENSE = Dense()
register(DENSE, DensePayload)


def unwrap(value: Any) -> Any:
    """Arrays out of tensors, through tuples."""
    if isinstance(value, Tensor):
        return value._data
    if type(value) is tuple:
        return tuple([unwrap(v) for v in value])
    return value


def wrap(value: Any) -> Any:
    """Tensors around arrays, through tuples; results are row-major and own their memory, so views of other arrays are
    copied.
    """
    if type(value) is ndarray:
        return tensor_around(value if value.base is None and value.flags.c_contiguous else value.copy())
    if isinstance(value, (tuple, list)):
        return tuple([wrap(v) for v in value])
    if isinstance(value, np.generic):
        return tensor_around(np.asarray(value))
    return value


def _placed(op: Op, args: Args, out: Any) -> Any:
    """Results with their dims in memory as the entry says, if it does."""
    if op.lies is None:
        return out
    orders = op.lies(*compute.map_arrays(compute.operand_of, unwrap(args)))
    if not isinstance(out, tuple):
        return _in_order(out, orders[0])
    return tuple([_in_order(t, order) for t, order in zip(out, orders, strict=True)])


def _in_order(tensor: Tensor, order: tuple[int, ...] | None) -> Tensor:
    if type(tensor._data) is not ndarray:
        return tensor
    data = compute.in_order(tensor._data, order)
    return tensor if data is tensor._data else tensor_around(data)


# ---- views
def run_view(op: Op, args: tuple[Any, ...]) -> Any:
    """A view (or views) of the first argument; a copy where strides cannot express it."""
    return views_around(op, args, compute.view(op, args[0]._data, args[1:]))


def views_around(op: Op, args: tuple[Any, ...], shown: Any) -> Any:
    """run_view() of what NumPy has made."""
    source, rest = args[0], args[1:]
    data, storage = source._data, source._storage
    if shown is None:
        return wrap(np.ascontiguousarray(compute.evaluate(op, (data, *rest))))
    if storage is None:
        storage = source._storage = Storage(data)
    if type(shown) is ndarray:
        return view_of(source, storage, shown, op, rest, 0)
    return tuple([view_of(source, storage, m, op, rest, i) for i, m in enumerate(shown)])


# ---- writes
def write(op: Op, args: Args) -> None:
    """Put the operator's value into the bytes of args[0] and raise the version."""
    target: Tensor = args[0]
    data: Array = target._data
    storage = target.storage()
    check_writeable(data)
    if not op.is_splat:
        _check_overlap(data)
    if op.put is not None and _put(op, data, args):
        pass
    elif op.scalar is None or planned.table(op, tuple(map(type, args)), store).run(args) is planned.NOT_PLANNED:
        store(data, DENSE.run(op, args)._data)
    storage.version += 1
    storage.written = (storage.version, user_mark(2))


def check_writeable(data: Array) -> None:
    """Raises StateError for memory that is read-only."""
    if not data.flags.writeable:
        raise StateError("the tensor shares memory that its owner made read-only; clone() it before writing")


def store(data: Array, value: Array) -> None:
    """Copy an array of the right shape into `data`, converting as an in-place operator may."""
    source, target = dt.from_numpy(value.dtype), dt.from_numpy(data.dtype)
    promotion.check_cast(source, target)
    if value.shape != data.shape:
        raise ShapeError(f"output with shape {list(data.shape)} doesn't match the broadcast shape {list(value.shape)}")
    check_writeable(data)
    data[...] = NUMPY.cast(value, target) if value.dtype != data.dtype else value


def _put(op: Op, data: Array, args: Args) -> bool:
    """Let the operator write into the memory itself; not where much is written, which compiled kernels do faster."""
    operands = unwrap(args[1:])
    if any([type(a) is ndarray and a.size >= LARGE for a in operands]):
        return False
    quiet(op.put, data, *_apart(operands, data))
    return True


def _apart(value: Any, data: Array) -> Any:
    """Arrays, through tuples, with memory of their own where they lie in that of `data`."""
    if type(value) is ndarray:
        return value.copy() if np.may_share_memory(value, data) else value
    return tuple([_apart(v, data) for v in value]) if type(value) is tuple else value


# calls of in-place operators whose results fit, by what type rules see
_FITTING: Memo[tuple[Any, ...], None] = Memo(limits.FITTING_WRITES)


def _has_fitted(op: Op, args: Args) -> bool:
    key: list[Any] = [op]
    try:
        sign(args, key, [])
    except Untraceable:
        return False
    signature = tuple(key)
    if signature in _FITTING:
        return True
    target: TensorType = type_of(args[0])
    result = op.type(*[type_of(a) for a in args])  # type: ignore[misc]
    if result.dtype is not target.dtype or result.dims != target.dims:
        return False
    _FITTING[signature] = None
    return True


def _check_overlap(data: Array) -> None:
    if data.size and any(s == 0 and n > 1 for s, n in zip(data.strides, data.shape, strict=True)):
        raise StateError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def _all_alike(args: Args) -> bool:
    first = args[0]._data
    if type(first) is not ndarray or first.dtype.kind not in "fc":
        return False
    for a in args[1:]:
        if isinstance(a, Tensor):
            if type(a._data) is not ndarray or a._data.dtype != first.dtype or a._data.shape != first.shape:
                return False
        elif type(a) not in (int, float):
            return False
    return True
