"""set_ of lazy tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.functionalizer import other_memory
from weft.functionalizer.storage import SilentStorage
from weft.lazy.payload import LazyPayload, LazyStorage, fresh
from weft.ops.packet import aten
from weft.runtime.storage import UntypedStorage
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.lazy.device import LazyDevice


def show(device: LazyDevice, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
    """Show what another tensor of the device shows, other elements of its storage, or a storage; nothing without a
    source. Raises StateError for one of another device or dtype.
    """
    if source is None:
        source = fresh(device, aten.new_empty(tensor._data.read(), (0,)))
    inner = source.storage if isinstance(source, UntypedStorage) else source
    inner = inner.target if isinstance(inner, SilentStorage) else inner
    payload = source._data if isinstance(source, Tensor) else None
    storage = payload.storage if isinstance(payload, LazyPayload) else inner
    if not isinstance(storage, LazyStorage) or storage.device is not device:
        where = source.device if isinstance(source, Tensor) else getattr(storage, "device", None)
        raise StateError(
            f"Attempted to set the storage of a tensor on device {device.name!r} to a storage on different device "
            f"{str(getattr(where, 'name', where) or 'cpu')!r}. This is no longer allowed; the devices must match."
        )
    other_memory.show(tensor, source, offset, size, stride)
