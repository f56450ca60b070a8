"""The back end of device meta: operators on meta tensors give meta tensors, by the type rules
and the geometry of views alone."""

from __future__ import annotations

from typing import Any

from weft.functionalizer.memory_format import is_permuted, orders_said, result_orders
from weft.functionalizer.storage import Order
from weft.ops.geometry import Geometry, contiguous, contiguous_strides
from weft.ops.layout import Orders, joint_strides, ordered
from weft.ops.op import Op
from weft.support.errors import StateError, Unsupported
from weft.tensor.backend import META_RANK, Args, Backend, register
from weft.tensor.meta import DEVICE, MetaPayload, is_meta, like, meta_tensor
from weft.tensor.tensor import Tensor
from weft.tensor.views import view_of
from weft.types.dims import Expr
from weft.types.tensor_type import TensorType


class Meta(Backend):
    """Tensors that have a type and no bytes."""

    rank = META_RANK
    device = DEVICE

    def run(self, op: Op, args: Args) -> Any:
        """The operator's result by its type rule, with the strides that it has on arrays."""
        if op.view is not None:
            return _view(op, args)
        if op.type is None:
            if op.decompose is None:
                raise Unsupported(f"{op.name}: has no type rule, so it gives nothing for tensors on device meta")
            return self.open(op, args)
        result = op.type(*[_type_of(op, a) for a in args])
        orders = _orders(op, args)
        if isinstance(result, (tuple, list)):
            tensors = [_made(op, r, args, orders[i] if orders else None) for i, r in enumerate(result)]
            return type(result)(*tensors) if hasattr(result, "_fields") else tuple(tensors)
        return _made(op, result, args, orders[0] if orders else None)

    def write(self, op: Op, args: Args) -> None:
        """The version moves. copy_ may bring values to meta, where they end."""
        target: Tensor = args[0]
        if not is_meta(target):
            raise Unsupported(
                f"{op.base}_: Cannot copy out of meta tensor; no data! The written-to tensor is on {target.device}"
            )
        if not op.crosses_devices:
            for a in args:
                _type_of(op, a)
        target.storage().version += 1

    def orders_of(self, op: Op, args: Args) -> Orders | None:
        """As on arrays."""
        return orders_said(op, args, None)

    def receive(self, tensor: Tensor) -> Tensor:
        """The type and strides; the value is left behind."""
        return like(tensor)

    def resize(self, tensor: Tensor, dims: tuple[int, ...]) -> None:
        """Other sizes, row-major from the same offset."""
        _show(tensor, Geometry(dims, contiguous_strides(dims), tensor.geometry().offset))
        tensor.storage().version += 1

    def show(self, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
        """The geometry of another meta tensor, or the one that is given."""
        if source is None:
            _show(tensor, contiguous((0,)))
            return
        if not isinstance(source, Tensor) or not is_meta(source):
            raise StateError("set_: a tensor on device meta shows what another tensor on device meta shows")
        if source.dtype is not tensor.dtype:
            raise StateError(f"Could not set tensor of type {source.dtype} to a tensor of type {tensor.dtype}")
        if size is None:
            _show(tensor, source.geometry())
        else:
            dims = tuple(size)
            _show(tensor, Geometry(dims, contiguous_strides(dims) if stride is None else tuple(stride), offset))
        tensor._storage = source.storage()


def _show(tensor: Tensor, shape: Geometry) -> None:
    tensor._data = MetaPayload(tensor.type_.with_dims(shape.dims), shape)


register(Meta(), MetaPayload)


def _type_of(op: Op, value: Any) -> Any:
    if isinstance(value, Tensor):
        if not is_meta(value) and value.ndim:
            raise StateError(
                f"{op.base}: Expected all tensors to be on the same device, but found at least two devices, "
                f"meta and {value.device}! Move them with .to('meta'); nothing can be moved back."
            )
        return value.type_
    if type(value) is tuple:
        return tuple(_type_of(op, v) for v in value)
    return value


def _orders(op: Op, args: Args) -> tuple[Order | None, ...]:
    """The order of dims that each result has on arrays; () where all are row-major, and for pointwise operators."""
    if (op.scalar is not None and op.lies is None) or (not op.is_placed and not is_permuted(args, None)):
        return ()
    return result_orders(op, args, None)


def _made(op: Op, result: Any, args: tuple[Any, ...], order: Order | None) -> Any:
    if not isinstance(result, TensorType):
        raise _data_dependent(op)
    if not result.is_complete or any(isinstance(d, Expr) for d in result.shape):
        raise _data_dependent(op)
    strides = None
    if op.scalar is not None and op.lies is None:
        strides = joint_strides(result.shape, [a.geometry() for a in args if isinstance(a, Tensor)])
    if order is not None:
        return meta_tensor(result, ordered(result.shape, order))
    return meta_tensor(result, None if strides is None else Geometry(result.shape, strides))


def _data_dependent(op: Op) -> Unsupported:
    return Unsupported(
        f"{op.base}: its result depends on the values of its arguments, and tensors on device meta have none"
    )


def _view(op: Op, args: tuple[Any, ...]) -> Any:
    source: Tensor = args[0]
    assert op.view is not None
    shape = op.view.geometry(source.geometry(), *args[1:])
    types = None if op.type is None else op.type(*[_type_of(op, a) for a in args])
    if shape is None:
        shape = op.view.geometry(meta_tensor(source.type_).geometry(), *args[1:])
        return meta_tensor(_typed(source, shape, types))
    if isinstance(shape, tuple):
        return tuple(
            [_alias(source, s, None if types is None else types[i], op, args[1:], i) for i, s in enumerate(shape)]
        )
    return _alias(source, shape, types, op, args[1:], 0)


def _alias(source: Tensor, shape: Geometry, type: Any, op: Op, rest: tuple[Any, ...], index: int) -> Tensor:
    storage = source.storage()
    return view_of(source, storage, MetaPayload(_typed(source, shape, type), shape), op, rest, index)


def _typed(source: Tensor, shape: Geometry, type: TensorType | None) -> TensorType:
    """The type of a view: its own where the operator changes the dtype, else the source's with other dims."""
    return source.type_.with_dims(shape.dims).with_dtype(source.dtype if type is None else type.dtype)
