"""The abstract back end: operators on meta tensors give meta tensors, by the type rules and the geometry of views alone."""

from __future__ import annotations

from typing import Any

from weft.layers.eager import view_of
from weft.layers.transforms.level import Wrapper, tensors_in
from weft.ops.geometry import Geometry
from weft.ops.layout import joint_strides
from weft.ops.op import Op
from weft.ops.route import call, default_route
from weft.support.errors import StateError, Unsupported
from weft.tensor.meta import MetaPayload, is_meta, meta_tensor
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor
from weft.types.dims import Expr
from weft.types.tensor_type import TensorType


def concerns(op: Op, args: tuple[Any, ...]) -> bool:
    """Whether any tensor argument is a meta tensor."""
    for i in op.tensor_positions:
        a = args[i]
        if isinstance(a, Tensor) and type(a._data) is MetaPayload:
            return True
    return any(is_meta(a) for i in op.tensor_list_positions for a in args[i] or ())


def opened(op: Op, args: tuple[Any, ...]) -> Any:
    """A composite opens to operators on meta tensors, and the constants that it makes are meta tensors too."""
    with default_route(run):
        return op.decompose(*args)  # type: ignore[misc]


def run(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's result on meta tensors: types by its rule, strides as NumPy's back end gives them."""
    _refuse_spent(op, args)
    if any(isinstance(t._data, Wrapper) for t in tensors_in(args)):
        return call(op, _come_out(args))
    if op.view is not None:
        return _view(op, args)
    if op.type is None:
        if op.decompose is None:
            raise Unsupported(f"{op.name}: has no type rule, so it gives nothing for tensors on device meta")
        return opened(op, args)
    result = op.type(*[_type_of(op, a) for a in args])
    return _made(op, result, args)


def _refuse_spent(op: Op, args: tuple[Any, ...]) -> None:
    """Raises CaptureError for a tensor of a capture that has ended."""
    for tensor in tensors_in(args):
        if isinstance(tensor._data, Payload) and tensor._data.is_spent:
            tensor._data.materialize(f"{op.base}()")


def _come_out(value: Any) -> Any:
    """Arguments with what tensors of a transform that has ended stand for. Raises StateError for a batch, whose dim the program does not see."""
    if isinstance(value, Tensor):
        return _come_out(value._data.outside()) if isinstance(value._data, Wrapper) else value
    return tuple(_come_out(v) for v in value) if type(value) is tuple else value


def _type_of(op: Op, value: Any) -> Any:
    if isinstance(value, Tensor):
        if not is_meta(value) and value.ndim:
            raise StateError(
                f"{op.base}: Expected all tensors to be on the same device, but found at least two devices, meta and {value.device}! "
                "Move them with .to('meta'); nothing can be moved back."
            )
        return value.type_
    if type(value) is tuple:
        return tuple(_type_of(op, v) for v in value)
    return value


def _made(op: Op, result: Any, args: tuple[Any, ...]) -> Any:
    if isinstance(result, (tuple, list)):
        made = [_made(op, r, args) for r in result]
        return type(result)(*made) if hasattr(result, "_fields") else tuple(made)
    if not isinstance(result, TensorType):
        raise _data_dependent(op)
    if not result.is_complete or any(isinstance(d, Expr) for d in result.shape):
        raise _data_dependent(op)
    strides = None
    if op.scalar is not None:
        strides = joint_strides(result.shape, [a.geometry() for a in args if isinstance(a, Tensor)])
    return meta_tensor(result, None if strides is None else Geometry(result.shape, strides))


def _data_dependent(op: Op) -> Unsupported:
    return Unsupported(f"{op.base}: its result depends on the values of its arguments, and tensors on device meta have none")


def _view(op: Op, args: tuple[Any, ...]) -> Any:
    source: Tensor = args[0]
    assert op.view is not None
    shape = op.view.geometry(source.geometry(), *args[1:])
    types = None if op.type is None else op.type(*[_type_of(op, a) for a in args])
    if shape is None:
        shape = op.view.geometry(meta_tensor(source.type_).geometry(), *args[1:])
        return meta_tensor(_typed(source, shape, types))
    if isinstance(shape, tuple):
        return tuple([_alias(source, s, None if types is None else types[i], op, args[1:], i) for i, s in enumerate(shape)])
    return _alias(source, shape, types, op, args[1:], 0)


def _alias(source: Tensor, shape: Geometry, type: Any, op: Op, rest: tuple[Any, ...], index: int) -> Tensor:
    storage = source.storage()
    return view_of(source, storage, MetaPayload(_typed(source, shape, type), shape), op, rest, index)


def _typed(source: Tensor, shape: Geometry, type: TensorType | None) -> TensorType:
    """The type of a view: its own where the operator changes the dtype, else the source's with other dims."""
    return source.type_.with_dims(shape.dims).with_dtype(source.dtype if type is None else type.dtype)


def write(op: Op, args: tuple[Any, ...]) -> None:
    """An in-place operator (the walk has compared the types): the version moves. copy_ may bring values to meta, where they end."""
    target: Tensor = args[0]
    _refuse_spent(op, args)
    if isinstance(target._data, Wrapper):
        raise StateError(f"{op.base}_: the tensor belongs to {target._data.level.name}, which has ended; return it from the function, or clone() it")
    if not is_meta(target):
        raise Unsupported(f"{op.base}_: Cannot copy out of meta tensor; no data! The written-to tensor is on {target.device}")
    if op.base != "copy":
        for a in args:
            _type_of(op, a)
    target.storage().version += 1
