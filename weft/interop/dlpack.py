"""DLPack: memory shared with other libraries, both ways. (Tensor.__dlpack__ is in layers/methods.py.)"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.support.errors import ArgumentError, ValueProblem
from weft.tensor.creation import from_numpy
from weft.tensor.device import usable
from weft.tensor.tensor import Tensor

_CPU = 1


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of any object with `__dlpack__` (copy=True: over memory of its own;
    copy=False: never a copy).

    Memory that its owner calls read-only stays so: writing to the tensor is an error. Raises ArgumentError,
    ValueProblem, BufferError.
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise ArgumentError(
            f"from_dlpack: expected an object with __dlpack__ and __dlpack_device__, got {type(x).__name__}"
        )
    if device is not None and usable(device).type != "cpu":
        raise ValueProblem(f"from_dlpack: weft shares memory on the cpu, not on {device}")
    kind = int(x.__dlpack_device__()[0])
    if kind != _CPU:
        raise ValueProblem(
            f"from_dlpack: the memory is on DLPack device type {kind}; weft reads the cpu's (1). "
            "Copy it to the cpu first."
        )
    array = np.from_dlpack(x)
    if any(s < 0 for s in array.strides):
        if copy is False:
            raise ValueProblem("from_dlpack: negative strides cannot be shared, and copy=False forbids a copy")
        copy = True
    return from_numpy(array.copy(order="K") if copy else array)
