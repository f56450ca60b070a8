"""resize_ and set_ of lazy tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from weft.functionalizer import other_memory
from weft.lazy.payload import LazyPayload, LazyStorage, known
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor
from weft.types.dims import product

if TYPE_CHECKING:
    from weft.lazy.device import LazyDevice


def resize(device: LazyDevice, tensor: Tensor, dims: tuple[int, ...]) -> None:
    """Show the storage row-major with these sizes; one that is too small is replaced by a larger one with the old
    elements in front. Raises StateError where something else shows it.
    """
    storage: LazyStorage = tensor._data.storage
    size, needed, there = tensor.element_size(), known(product(dims)), known(storage.type.numel)
    if needed * size <= storage.nbytes:
        other_memory.resize(tensor, dims)
        return
    value, nbytes, version = _in_memory(storage), storage.nbytes, storage.version
    del storage
    if tensor._view is not None or not _let_go(tensor):
        raise StateError(
            f"Trying to resize storage that is not resizable: resize_ needs {needed * size} bytes, "
            f"the storage has {nbytes}, and another tensor or array shows it. clone() the tensor first"
        )
    made = LazyStorage(device, aten.reshape(aten.cat((value, aten.new_zeros(value, (needed - there,)))), dims))
    made.version = version + 1
    tensor._data, tensor._storage = LazyPayload(made, (), made.type), made


def _let_go(tensor: Tensor) -> bool:
    """Take a tensor's storage from it, unless it outlives that, for somebody else has it: then the tensor has it back.
    """
    data: LazyPayload = tensor._data
    path, kind, geometry, held = data.path, data.type, data._geometry, ref(data.storage)
    if tensor.storage() is not data.storage:  # `.data` of another tensor
        return False
    tensor._data = tensor._storage = None
    del data
    storage = held()
    if storage is not None:
        tensor._data, tensor._storage = LazyPayload(storage, path, kind, geometry), storage
    return storage is None


def _in_memory(storage: LazyStorage) -> Any:
    """The base's elements as they lie in memory, one after the other."""
    value, order = storage.value, storage.order
    return aten.reshape(value if order is None else aten.permute(value, order), (storage.type.numel,))


def show(tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
    """Show what another tensor of the device shows, or other elements of its storage."""
    other_memory.show(tensor, source, offset, size, stride)
