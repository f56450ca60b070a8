"""Storage: the bytes behind tensors and their version counter. The unit of state: every alias of a tensor shares one."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Storage:
    """One block of memory, held as the NumPy array that owns it, with a version that every in-place write raises.

    `written` is (version, mark) of the latest write by an in-place operator, for the version error; marks are support/locations.py's.
    """

    __slots__ = ("__weakref__", "_address", "array", "version", "written")

    def __init__(self, array: Array) -> None:
        root = root_of(array)
        self.array = root if root.flags.c_contiguous else root.ravel(order="K")
        self.version = 0
        self.written: Any = None
        self._address: int | None = None

    @property
    def address(self) -> int:
        """Address of the first byte, cached."""
        if self._address is None:
            self._address = address_of(self.array)
        return self._address

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self.address

    def __len__(self) -> int:
        return self.array.size

    size = __len__

    def __getitem__(self, index: Any) -> Any:
        found = self.array.reshape(-1)[index]
        return found.item() if isinstance(found, np.generic) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array.reshape(-1)[index] = value
        self.version += 1

    def tolist(self) -> list[Any]:
        """The elements in order."""
        found: list[Any] = self.array.reshape(-1).tolist()
        return found

    def element_size(self) -> int:
        """Bytes per element."""
        return self.array.itemsize

    def offset_of(self, view: Array) -> int:
        """Element offset of a view into this storage."""
        if view is self.array:
            return 0
        return (address_of(view) - self.address) // int(view.dtype.itemsize)

    def view(self, dims: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: np.dtype[Any]) -> Array:
        """An array over the same memory; strides and offset in elements of `dtype`."""
        size = dtype.itemsize
        view: Array = np.ndarray(dims, dtype, self.array, offset * size, tuple(s * size for s in strides))
        return view


class InferenceStorage(Storage):
    """The memory of tensors that inference mode made: their versions are nobody's business."""

    __slots__ = ()


class UntypedStorage:
    """A storage as its bytes, for users: address, size, single bytes."""

    __slots__ = ("storage",)

    def __init__(self, storage: Any) -> None:
        self.storage = storage

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return int(self.storage.address)

    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self.storage.nbytes)

    size = __len__ = nbytes

    def __getitem__(self, index: Any) -> Any:
        return self.storage.array.reshape(-1).view(np.uint8)[index]

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        found: list[int] = self.storage.array.reshape(-1).view(np.uint8).tolist()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.storage is self.storage

    def __hash__(self) -> int:
        return id(self.storage)


def root_of(array: Array) -> Array:
    """The array that owns (or first exposed) the memory, contiguous."""
    while type(array.base) is np.ndarray:
        array = array.base
    return array


def address_of(array: Array) -> int:
    """Address of an array's first element."""
    return int(array.__array_interface__["data"][0])
