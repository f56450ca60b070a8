"""resize_ and set_ of dense tensors: which memory they show, and what may be taken from it."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from weft.ops.geometry import contiguous_strides
from weft.runtime.storage import Storage, UntypedStorage, root_of
from weft.support.errors import ArgumentError, StateError, too_large
from weft.tensor.tensor import Tensor


def resize(tensor: Tensor, dims: tuple[int, ...]) -> None:
    """Show the storage row-major with these sizes; one that is too small is replaced by a larger one with the old bytes
    in front."""
    dtype, offset, version = tensor._data.dtype, tensor.storage().offset_of(tensor._data), tensor.storage().version
    count = int(np.prod(dims, dtype=np.int64))
    needs_more = (offset + count) * dtype.itemsize > tensor._storage.nbytes
    storage: Any = _grown(tensor, offset + count) if needs_more else tensor._storage
    tensor._data = storage.view(dims, contiguous_strides(dims), offset, dtype)
    tensor._storage = storage
    storage.version = version + 1


def _grown(tensor: Tensor, count: int) -> Storage:
    """A larger storage with the old bytes in front. Raises StateError, and nothing has happened, where something else
    shows the old one."""
    try:
        array = np.empty(count, tensor._data.dtype)
    except (MemoryError, ValueError) as problem:
        raise too_large("resize_", problem) or problem from None
    nbytes, root = tensor._storage.nbytes, tensor._storage.array
    array.view(np.uint8)[:nbytes] = root.reshape(-1).view(np.uint8)
    del root
    if tensor._view is not None or not _let_go(tensor):
        raise StateError(
            f"Trying to resize storage that is not resizable: resize_ needs {array.nbytes} bytes, "
            f"the storage has {nbytes}, and another tensor or array shows it. clone() the tensor first"
        )
    return Storage(array)


def _let_go(tensor: Tensor) -> bool:
    """Take a tensor's memory from it, unless it outlives that, for somebody else has it:
    then the tensor has it back."""
    storage, data = tensor._storage, tensor._data
    g: Any = tensor.geometry()  # of bytes: numbers
    version, dtype = storage.version, data.dtype
    held = [weakref.ref(x) for x in (storage, data, storage.array, root_of(data))]
    tensor._storage = tensor._data = None
    del storage, data
    storage, data, *arrays = [found() for found in held]
    others = [a for a in (data, *arrays) if a is not None]
    if storage is None and not others:
        return True
    tensor._storage = Storage(others[0]) if storage is None else storage
    tensor._storage.version = version
    tensor._data = tensor._storage.view(g.dims, g.strides, g.offset, dtype) if data is None else data
    return False


def shown(tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> tuple[Any, Storage]:
    """The array and storage of `tensor.set_(...)`: those of a tensor, a view of a storage, or none."""
    dtype = tensor._data.dtype
    if source is None:
        empty = np.empty(0, dtype)
        return empty, Storage(empty)
    if isinstance(source, Tensor):
        if source.dtype is not tensor.dtype:
            raise StateError(f"Could not set tensor of type {source.dtype} to a tensor of type {tensor.dtype}")
        if size is None:
            return source._data, source.storage()
        source = source.storage()
    if isinstance(source, UntypedStorage):
        source = source.storage
    if not isinstance(source, Storage):
        raise ArgumentError(f"set_(): expected a Tensor or a Storage, got {type(source).__name__}")
    dims = (source.nbytes // dtype.itemsize - offset,) if size is None else tuple(size)
    strides: tuple[Any, ...] = contiguous_strides(dims) if stride is None else tuple(stride)
    last = offset + sum((d - 1) * s for d, s in zip(dims, strides, strict=False)) + 1
    if offset < 0 or (all(dims) and last * dtype.itemsize > source.nbytes):
        raise StateError(
            f"set_(): sizes {list(dims)}, strides {list(strides)} and offset {offset} need more than the storage's "
            f"{source.nbytes} bytes"
        )
    return source.view(dims, strides, offset, dtype), source


