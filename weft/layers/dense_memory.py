"""resize_ and set_ of dense tensors: which memory they show, and what may be taken from it."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from weft.ops.geometry import Geometry, contiguous_strides, reach
from weft.runtime.storage import Storage, UntypedStorage, resized, root_of
from weft.support.errors import ArgumentError, StateError, too_large
from weft.tensor.dense import is_dense, over_storage
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.dtype import DType


def resize(tensor: Tensor, dims: tuple[int, ...]) -> None:
    """Show the storage row-major; one that is too small becomes larger, for everything that shows it. Raises StateError
    where others than tensors have it.
    """
    dtype, place, version = tensor.dtype, tensor.storage_offset(), tensor.storage().version
    is_inference = tensor.is_inference()
    count = math.prod(dims)
    needed = (place + count) * dtype.itemsize
    if count and needed > tensor.storage().nbytes:
        tensor.storage().refuse_fixed()
        memory = resized(tensor.storage().array, needed)
        if tensor._view is None and is_dense(tensor) and _let_go(tensor):
            tensor._storage = Storage(memory)
        else:
            tensor.storage().resize(needed)
    storage = tensor.storage()
    try:
        tensor._data = over_storage(storage, dtype, Geometry(dims, contiguous_strides(dims), place))
    except ValueError as problem:  # no elements, and strides of too many
        raise too_large("resize_", problem) or problem from None
    storage.version, storage.is_inference = version + 1, is_inference


def _let_go(tensor: Tensor) -> bool:
    """Take a tensor's memory from it, unless it outlives that, for somebody else has it:
    then the tensor has it back."""
    storage, data = tensor._storage, tensor._data
    g: Any = tensor.geometry()  # of bytes: numbers
    facts, dtype = (storage.version, storage.loans, storage.is_inference), data.dtype
    held = [weakref.ref(x) for x in (storage, data, storage.array, root_of(data))]
    tensor._storage = tensor._data = None
    del storage, data
    storage, data, *arrays = [ref() for ref in held]
    others = [a for a in (data, *arrays) if a is not None]
    if storage is None and not others:
        return True
    tensor._storage = Storage(others[0]) if storage is None else storage
    tensor._storage.version, tensor._storage.loans, tensor._storage.is_inference = facts
    tensor._data = tensor._storage.view(g.dims, g.strides, g.offset, dtype) if data is None else data
    return False


def shown(tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> tuple[Any, Storage]:
    """The array and storage of `tensor.set_(...)`: those of a tensor, a view of a storage, or none."""
    dtype = tensor.dtype.numpy
    if source is None:
        empty = np.empty(0, dtype)
        return empty, Storage(empty)
    if isinstance(source, Tensor):
        if source.dtype is not tensor.dtype:
            raise StateError(f"Could not set tensor of type {source.dtype} to a tensor of type {tensor.dtype}")
        if size is None:
            return source._data, source.storage()
        source = source.storage()
    first, count = 0, None
    if isinstance(source, UntypedStorage):
        first, count = source.in_elements(dtype.itemsize)
        source = source.storage
    if not isinstance(source, Storage):
        raise ArgumentError(f"set_(): expected a Tensor or a Storage, got {type(source).__name__}")
    count = source.nbytes // dtype.itemsize if count is None else count
    dims = (count - offset,) if size is None else tuple(size)
    strides: tuple[Any, ...] = contiguous_strides(dims) if stride is None else tuple(stride)
    if offset < 0 or min(dims, default=0) < 0:
        raise StateError(f"set_(): sizes {list(dims)} and offset {offset} are not all positive")
    there = Geometry(dims, strides, first + offset)
    needed: Any = reach(there)  # of bytes: numbers
    if all(dims) and needed * dtype.itemsize > source.nbytes:
        source.resize(needed * dtype.itemsize)
    return over_storage(source, tensor.dtype, there), source


def over(tensor: Tensor, dtype: DType, shown: Geometry) -> Tensor:
    """Another tensor over the storage of a dense one, which may have too few bytes for it."""
    storage = tensor.storage()
    out = tensor_around(over_storage(storage, dtype, shown))
    out._storage = storage
    return out
