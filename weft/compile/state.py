"""State: the concrete storages that a captured function touches. Each is one graph parameter; every tensor over it is a geometry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.compile.symbolic import SymbolicStorage
from weft.ops.geometry import contiguous
from weft.runtime.storage import Storage
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.tensor_type import tensor_type


@dataclass(eq=False)
class StateSlot:
    """One storage as an input: the tensor that stands for its base, the array that is passed, and its symbolic twin."""

    storage: Storage
    tensor: Tensor
    array: np.ndarray[Any, Any]
    symbolic: SymbolicStorage
    param: int
    is_flat: bool
    written: bool = False
    provider: Callable[[], Tensor] | None = None
    leaf: int | None = None  # the argument through which it came, if it came through one
    own: set[int] = field(default_factory=set)  # ids of the arguments that show it
    is_fixed: bool = True  # whether it must be this very storage at every call


def choose_base(tensor: Tensor) -> tuple[Tensor, np.ndarray[Any, Any], bool]:
    """The tensor and array that stand for a whole storage: a contiguous tensor that covers it, else the storage as one flat array."""
    storage: Storage = tensor.storage()
    candidates = [tensor] if tensor._view is None else [tensor._view.base, tensor]
    for candidate in candidates:
        data = candidate._data
        if data.flags.c_contiguous and data.nbytes == storage.nbytes:
            return candidate, data, False
    data = tensor._data
    flat = storage.array.reshape(-1).view(data.dtype) if storage.array.dtype != data.dtype else storage.array.reshape(-1)
    return tensor, flat, True


def base_like(tensor: Tensor, slot: StateSlot) -> np.ndarray[Any, Any] | None:
    """The array that stands for the storage of another call's tensor, in the form that the slot has; None if it has another."""
    _, array, is_flat = choose_base(tensor)
    if slot.is_flat and not is_flat:
        array = array.reshape(-1)
    return array if array.shape == slot.array.shape and array.dtype == slot.array.dtype else None


def type_of_array(array: np.ndarray[Any, Any]) -> Any:
    """The TensorType of an array."""
    return tensor_type(dt.from_numpy(array.dtype), array.shape)


def geometry_of_base(array: np.ndarray[Any, Any]) -> Any:
    """The geometry of a base: row-major."""
    return contiguous(array.shape)
