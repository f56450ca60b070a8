"""resize_ and set_ of lazy tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.functionalizer import other_memory
from weft.lazy.payload import LazyPayload, LazyStorage
from weft.ops.packet import aten
from weft.support.errors import CaptureError, StateError
from weft.tensor.tensor import Tensor
from weft.types.dims import product

if TYPE_CHECKING:
    from weft.lazy.device import LazyDevice


def resize(device: LazyDevice, tensor: Tensor, dims: tuple[int, ...]) -> None:
    """Show the storage row-major with these sizes; one that is too small is replaced by a larger one with the old
    elements in front. Raises StateError where a view would have to grow: others show its storage.
    """
    try:
        other_memory.resize(tensor, dims)
    except CaptureError:
        _grow(device, tensor, dims)


def _grow(device: LazyDevice, tensor: Tensor, dims: tuple[int, ...]) -> None:
    payload: LazyPayload = tensor._data
    storage = tensor.storage()
    if tensor._view is not None or type(storage) is not LazyStorage:
        raise StateError(
            f"Trying to resize storage that is not resizable: resize_ needs {product(dims)} elements, the storage has "
            f"{payload.storage.type.numel}, and another tensor shows it. clone() the tensor first"
        )
    old = aten.reshape(_in_memory(payload), (payload.storage.type.numel,))
    rest = product(dims) - payload.storage.type.numel
    value = aten.reshape(aten.cat((old, aten.new_zeros(old, (rest,)))), dims)
    made = LazyStorage(device, value)
    made.version = storage.version + 1
    tensor._data, tensor._storage = LazyPayload(made, (), value.type_), made


def _in_memory(payload: LazyPayload) -> Any:
    """The base's value, its dims in the order in which they lie in memory."""
    value, order = payload.storage.value, payload.storage.order
    return value if order is None else aten.permute(value, order)


def show(tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
    """Show what another tensor of the device shows, or other elements of its storage."""
    other_memory.show(tensor, source, offset, size, stride)
