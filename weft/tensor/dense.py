"""An ndarray as a payload: what tensors ask of it, and the only place of this package that asks whether a payload
is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.compute import element_strides, geometry_of
from weft.ops.geometry import Geometry, reach
from weft.ops.layout import is_dense as is_block
from weft.runtime.moving import Move
from weft.runtime.storage import Storage
from weft.tensor.freed import FreedPayload
from weft.tensor.modes import floor, modes
from weft.tensor.payload import Payload
from weft.types import dtype as dt
from weft.types.dtype import BY_NUMPY, DType
from weft.types.tensor_type import TensorType, tensor_type

if TYPE_CHECKING:
    from weft.tensor.tensor import Tensor

ndarray = np.ndarray
Array = np.ndarray[Any, Any]


class DensePayload(Payload):
    """An ndarray, asked as any payload is. Made where it is asked; a tensor holds the array itself."""

    __slots__ = ("array", "storage")
    has_bytes = True

    def __init__(self, array: Array, storage: Any) -> None:
        self.array, self.storage = array, storage

    @property
    def type(self) -> TensorType:  # type: ignore[override]
        array = self.array
        return tensor_type(dt.from_numpy(array.dtype), array.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> DType:
        return BY_NUMPY.get(self.array.dtype) or dt.from_numpy(self.array.dtype)

    @property
    def base(self) -> Any:
        return self.array.base

    def geometry(self) -> Geometry:
        array, storage = self.array, self.storage
        return Geometry(array.shape, element_strides(array), 0 if storage is None else storage.offset_of(array))

    def offset(self) -> int:
        storage: Storage = Storage(self.array) if self.storage is None else self.storage
        return storage.offset_of(self.array)

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def materialize(self, what: str) -> Array:
        if modes.special is not None:
            settle(self.array, what)
        return self.array

    def data_ptr(self, owner: Tensor) -> int:
        if not self.array.size:
            return 0
        self.materialize("data_ptr()")
        storage: Storage = owner.storage()
        return int(storage.address + storage.offset_of(self.array) * self.array.itemsize)

    def shares_memory(self, other: Any) -> bool:
        return type(other) is ndarray and np.may_share_memory(self.array, other)

    def overlaps(self, other: Any) -> bool:
        return self.shares_memory(other) and is_block(self.geometry()) and is_block(geometry_of(other))

    def new_storage(self) -> Storage:
        return Storage(self.array)

    def copy_to(self, out: Tensor, memo: dict[int, Any]) -> None:
        array, storage = self.materialize("deepcopy"), self.storage
        out._autograd = out._view = None
        if storage is None or (id(storage) not in memo and storage.array.size == array.size):
            out._data, out._storage = array.copy(order="K"), None
            if storage is not None:
                memo[id(storage)] = out.storage()
            return
        copied = memo.get(id(storage))
        if copied is None:
            copied = memo[id(storage)] = Storage(storage.array.copy())
        g: Any = self.geometry()  # of bytes: numbers
        out._data, out._storage = copied.view(array.shape, g.strides, g.offset, array.dtype), copied

    def moved_to(self, owner: Tensor) -> Array:
        return self.array

    def detached(self) -> Array:
        return self.array

    def kept(self, owner: Tensor) -> Array:
        return self.array

    def note_inference(self, owner: Tensor) -> None:
        owner.storage().is_inference = True


def settle(array: Array, what: str) -> None:
    """See that an array of a plain tensor has the bytes that its tensor shows."""
    below = floor()
    if below is not None:
        below.settle(array, what)


def lend(tensor: Tensor, what: str, is_fixed: bool = False) -> None:
    """Note that others than tensors get at the memory of a tensor, and may write it. is_fixed: it is theirs."""
    storage = tensor.storage()
    if isinstance(storage, Storage):
        storage.lend(is_fixed)
        lend_below(tensor, what)


def lent(tensor: Tensor, array: Array, what: str) -> Array:
    """A tensor's array for others, who may write it while they have it, or what they make of it."""
    storage = tensor.storage()
    if not isinstance(storage, Storage):
        return array
    lend_below(tensor, what)
    return storage.lent_view(array)


def lend_below(tensor: Tensor, what: str) -> None:
    """The same for a floor that defers calls on the memory."""
    below = floor()
    if below is not None:
        below.lend(tensor, what)


def payload_of(tensor: Any) -> Payload:
    """What a tensor holds, to be asked."""
    data = tensor._data
    return DensePayload(data, tensor._storage) if type(data) is ndarray else data


def as_payload(data: Any, storage: Any) -> Payload:
    """What some tensor over a storage held, idem."""
    return DensePayload(data, storage) if type(data) is ndarray else data


def detached(data: Any) -> Any:
    """The payload of an alias without history."""
    return data if type(data) is ndarray else data.detached()


def payload_kept(tensor: Tensor) -> Any:
    """The payload that a node keeps of a tensor that it saves."""
    data = tensor._data
    return data if type(data) is ndarray else data.kept(tensor)


def rewrapped(data: Any, out: Tensor) -> Tensor:
    """A tensor that machinery made around the payload of another, or its alias, as users know it."""
    return out if type(data) is ndarray else data.rewrapped(out)


def over_storage(storage: Storage, dtype: DType, g: Geometry) -> Any:
    """The payload of a tensor over a storage: an array, or what waits for bytes where the storage has too few."""
    shown: Any = g  # of bytes: numbers
    if 0 in shown.dims:
        return storage.view(shown.dims, shown.strides, 0, dtype.numpy)
    if reach(shown) * dtype.itemsize > storage.nbytes:
        return FreedPayload(tensor_type(dtype, g.dims), g, storage)
    return storage.view(shown.dims, shown.strides, shown.offset, dtype.numpy)


def follow(data: Any, storage: Any, move: Move) -> Any:
    """The payload that takes the place of one over bytes that moved; any other stays."""
    if type(data) is ndarray:
        start = move.place_of(data) // data.itemsize
        g = Geometry(data.shape, element_strides(data), start)
        return move.once(data, lambda data: over_storage(storage, dt.from_numpy(data.dtype), g))
    if type(data) is FreedPayload:
        return move.once(data, lambda data: over_storage(storage, data.dtype, data.geometry()))
    return data


def has_memory(tensor: Any) -> bool:
    """Whether a tensor's storage is a block of memory, though it may have too few bytes for the tensor."""
    data = tensor._data
    return type(data) is ndarray or type(data) is FreedPayload


def is_dense(tensor: Any) -> bool:
    """Whether a tensor's payload is an array."""
    return type(tensor._data) is ndarray


def dense_array(tensor: Any) -> Array | None:
    """The array of a dense tensor; None for any other."""
    data = tensor._data
    return data if type(data) is ndarray else None
