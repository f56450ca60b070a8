"""Tensors as buffers: the memory of a contiguous tensor itself, and a copy of any other.

A tensor whose bytes wait (lazy tensors) gets them first. Writing moves the version on, so that a gradient that saved
the old value says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.distributed.channel import Array
from weft.support.errors import ArgumentError, ShapeError
from weft.tensor.dense import is_dense, lend_below, payload_of
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor, tensor_around


def check_tensor(what: str, tensor: Any) -> Tensor:
    """Raises ArgumentError for what is no tensor."""
    if not isinstance(tensor, Tensor):
        raise ArgumentError(f"{what}: expected a Tensor, got {type(tensor).__name__}")
    return tensor


def check_tensors(what: str, tensors: Any, count: int, like: Tensor | None = None) -> list[Tensor]:
    """As many tensors as there are ranks. Raises ArgumentError, ShapeError."""
    if not isinstance(tensors, (list, tuple)) or len(tensors) != count:
        raise ShapeError(f"{what}: expected a list of {count} tensors, one for each rank")
    for t in tensors:
        check_tensor(what, t)
        if like is not None and t.dtype is not like.dtype:
            raise ArgumentError(f"{what}: tensors of different dtypes, {t.dtype} and {like.dtype}")
    return list(tensors)


def read(tensor: Tensor, what: str) -> Array:
    """The elements in row-major order: the tensor's own memory if it is contiguous."""
    return np.ascontiguousarray(payload_of(tensor).materialize(what)).reshape(-1)


def written(tensor: Tensor, what: str) -> tuple[Array, Callable[[], Tensor]]:
    """A buffer to write into, with the elements as they are, and what makes the tensor show what was written."""
    if is_dense(tensor):
        array = payload_of(tensor).materialize(what)
        lend_below(tensor, what)
        if array.flags.c_contiguous and array.flags.writeable:
            return array.reshape(-1), lambda: _note_write(tensor)
    buffer = read(tensor, what).copy()

    def copy_back() -> Tensor:
        with no_grad():
            tensor.copy_(tensor_around(buffer.reshape(tuple(tensor.shape))))
        return tensor

    return buffer, copy_back


def _note_write(tensor: Tensor) -> Tensor:
    tensor.storage().version += 1
    return tensor


def joined(tensors: Sequence[Tensor], what: str) -> Array:
    """The elements of several tensors, one after the other: a copy."""
    return np.concatenate([read(t, what) for t in tensors])


def spread(buffer: Array, tensors: Sequence[Tensor], what: str) -> None:
    """Write a buffer's elements into several tensors, one after the other."""
    at = 0
    for t in tensors:
        part, finish = written(t, what)
        part[...] = buffer[at : at + part.size]
        at += part.size
        finish()
