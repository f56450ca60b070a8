"""resize_ and set_ of lazy tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from weft.functionalizer import other_memory
from weft.functionalizer.views import path_in_memory
from weft.lazy.payload import LazyPayload, LazyStorage, fresh, known
from weft.ops.geometry import Geometry, contiguous_strides
from weft.ops.packet import aten
from weft.runtime.storage import UntypedStorage
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor
from weft.types.dims import product
from weft.types.tensor_type import tensor_type

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


def show(device: LazyDevice, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
    """Show what another tensor of the device shows, other elements of its storage, or a storage; nothing without a
    source. Raises StateError for one of another device or dtype.
    """
    if source is None:
        source = fresh(device, aten.new_empty(tensor._data.read(), (0,)))
    begin, nbytes = 0, 0
    if isinstance(source, UntypedStorage):
        begin, nbytes, source = source.begin, source.nbytes(), source.storage
    elif isinstance(source, LazyStorage):
        nbytes = source.nbytes
    payload = source._data if isinstance(source, Tensor) else None
    storage = payload.storage if isinstance(payload, LazyPayload) else source
    if not isinstance(storage, LazyStorage) or storage.device is not device:
        where = source.device if isinstance(source, Tensor) else getattr(storage, "device", None)
        raise StateError(
            f"Attempted to set the storage of a tensor on device {device.name!r} to a storage on different device "
            f"{str(getattr(where, 'name', where) or 'cpu')!r}. This is no longer allowed; the devices must match."
        )
    if isinstance(source, Tensor):
        other_memory.show(tensor, source, offset, size, stride)
        return
    itemsize = tensor.element_size()
    dims = (nbytes // itemsize - offset,) if size is None else tuple(size)
    strides = contiguous_strides(dims) if stride is None else tuple(stride)
    shown = Geometry(dims, strides, offset + begin // itemsize)
    path = path_in_memory(storage, shown, tensor.dtype)
    tensor._data = LazyPayload(storage, path, tensor_type(tensor.dtype, dims), shown)
    tensor._storage = storage
