"""State: the concrete storages that a captured function touches. Each is one graph parameter; every tensor over it is a
geometry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.functionalizer.writes import Path
from weft.ops.packet import aten
from weft.record.symbolic import SymbolicStorage
from weft.runtime.storage import Storage, root_of
from weft.tensor.dense import dense_array
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import tensor_type

Getter = Callable[[], "Tensor | None"]


@dataclass(eq=False)
class StateSlot:
    """One storage as an input: the tensor that led to it first, the array that is passed, and its symbolic twin."""

    storage: Storage
    tensor: Tensor
    array: np.ndarray[Any, Any]
    symbolic: SymbolicStorage
    param: int
    is_flat: bool
    written: bool = False
    leaf: int | None = None  # the argument through which it came, if it came through one
    own: set[int] = field(default_factory=set)  # ids of the arguments that show it
    is_fixed: bool = True  # whether it must be this very storage at every call
    # by id: the tensors from outside that led here, as they lay
    members: dict[int, tuple[Tensor, np.ndarray[Any, Any]]] = field(default_factory=dict)
    # of members that are a `.grad`: what gives the one of a call
    gradients: dict[int, list[Getter]] = field(default_factory=dict)


def choose_base(tensor: Tensor) -> tuple[np.ndarray[Any, Any], bool]:
    """The array that stands for a whole storage, and whether it is flat: that of a contiguous tensor that covers it,
    else all of it as one row.
    """
    storage: Storage = tensor.storage()
    for data in map(dense_array, [tensor] if tensor._view is None else [tensor._view.base, tensor]):
        if (
            data is not None and data.flags.c_contiguous and data.nbytes == storage.nbytes
            and root_of(data) is root_of(tensor._data)
        ):
            return data, False
    return storage.row(tensor._data.dtype), True


def base_like(tensor: Tensor, slot: StateSlot) -> np.ndarray[Any, Any] | None:
    """The array that stands for the storage of another call's tensor, in the form that the slot has; None if it has
    another.
    """
    data: np.ndarray[Any, Any] = tensor._data
    base, storage = slot.array, tensor.storage()
    if (
        data.shape == base.shape and data.dtype == base.dtype and data.flags.c_contiguous
        and data.nbytes == storage.nbytes
    ):
        return data
    row: np.ndarray[Any, Any] = storage.row(base.dtype)
    return row.reshape(base.shape) if row.size == base.size else None


def row_of(base: np.ndarray[Any, Any], dtype: DType) -> Path:
    """The views that show an array's bytes as one row of another dtype; none for its own."""
    held, size = base.itemsize, dtype.itemsize
    if base.dtype == dtype.numpy:
        return ()
    count = base.nbytes // max(held, size) * max(held, size) // held
    flat = (aten.as_strided.default.op, ((count,), (1,), 0), 0)
    return (flat, (aten.view_bits.default.op, (dtype, held), 0))


def type_of_array(array: np.ndarray[Any, Any]) -> Any:
    """The TensorType of an array."""
    return tensor_type(dt.from_numpy(array.dtype), array.shape)
