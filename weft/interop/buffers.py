"""Tensors over what is there already: asarray shares memory where it can, frombuffer reads bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops.overrides import overridable
from weft.support.errors import ValueProblem
from weft.tensor.creation import from_numpy, tensor
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType


@overridable
def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector over the memory of an object with the buffer protocol: `count` elements (all, if negative)
    from `offset` bytes on.

    Of a read-only buffer the tensor is read-only too. Raises ValueProblem where the bytes do not make whole elements.
    """
    try:
        room = memoryview(buffer).nbytes
    except TypeError:
        raise ValueProblem(f"object does not implement Python buffer protocol: {type(buffer).__name__}") from None
    dtype = dt.as_dtype(dtype)
    size = dtype.itemsize
    if room == 0 or count == 0:
        raise ValueProblem(f"both buffer length ({room}) and count ({count}) must not be 0")
    if not 0 <= offset < room:
        raise ValueProblem(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({room} bytes) - 1"
        )
    if count < 0 and (room - offset) % size:
        raise ValueProblem(
            f"buffer length ({room - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
            f"size ({size})"
        )
    wanted = (room - offset) // size if count < 0 else count
    if wanted * size > room - offset:
        raise ValueProblem(
            f"requested buffer length ({wanted} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({room} bytes)"
        )
    out = from_numpy(np.frombuffer(buffer, dtype.numpy, wanted, offset))
    return out.requires_grad_() if requires_grad else out


@overridable
def asarray(
    obj: Any, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """`obj` as a tensor: a tensor, an array, something with DLPack or the buffer protocol, a number,
    or nested sequences.

    copy: True copies always, False never (what would need a copy is refused), None only where dtype or kind demand it.
    A tensor's history is kept unless `requires_grad` is False.
    """
    dtype = None if dtype is None else dt.as_dtype(dtype)
    shared = _shared(obj, dtype)
    if shared is None:
        if copy is False:
            raise ValueProblem(
                f"can't alias arbitrary {type(obj).__name__}, whose values must be copied; leave out copy=False"
            )
        out = tensor(obj, dtype=dtype, device=device)
    else:
        out = shared.to(device=device, dtype=dtype)
        if copy is False and out is not shared:
            raise ValueProblem(f"can't alias a tensor of {shared.dtype} as {out.dtype}; leave out copy=False")
        if copy and out is shared:
            out = out.clone()
    if requires_grad is None or out.requires_grad == requires_grad:
        return out
    return out.requires_grad_() if requires_grad else out.detach()


def _shared(obj: Any, dtype: DType | None) -> Tensor | None:
    """A tensor over the memory of `obj`, or None where its values must be read one by one."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if isinstance(obj, np.generic):
        return None
    if hasattr(obj, "__dlpack__"):
        return from_numpy(np.from_dlpack(obj))
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtype or dt.get_default())
