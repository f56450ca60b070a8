"""resize_ and set_ of tensors whose memory is a value: they show other elements of it, or another storage."""

from __future__ import annotations

from typing import Any

from weft.functionalizer.view import View
from weft.ops.geometry import contiguous_strides
from weft.ops.packet import aten
from weft.support.errors import CaptureError, ShapeError, StateError, Unsupported
from weft.tensor.history import ViewOf
from weft.tensor.tensor import Tensor


def resize(tensor: Tensor, dims: tuple[int, ...]) -> None:
    """Show the storage row-major with these sizes. Raises CaptureError where it has too few elements: a value keeps its
    sizes.
    """
    try:
        made: Tensor = tensor.as_strided(dims, contiguous_strides(dims))
    except ShapeError as problem:
        raise CaptureError(
            "resize_: the storage of a captured tensor cannot grow; make a new one with zeros() and copy into it"
        ) from problem
    before, after = tensor._view, made._view
    if before is not None and after is not None:
        tensor._view = ViewOf(after.base, after.path, before.creation, after.array)
    tensor._data = made._data
    tensor._storage.version += 1


def show(tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
    """Show what another tensor shows, or other elements of its storage; nothing without a source. Raises StateError for
    another dtype.
    """
    if source is None:
        source = aten.empty((0,), dtype=tensor.dtype)
    if not isinstance(source, Tensor):
        raise Unsupported("set_: a tensor whose memory is a value of a program cannot show a Storage; give it a tensor")
    if source.dtype is not tensor.dtype:
        raise StateError(f"Could not set tensor of type {source.dtype} to a tensor of type {tensor.dtype}")
    if size is None:
        made = aten.alias(source)
    else:
        made = source.as_strided(size, contiguous_strides(tuple(size)) if stride is None else stride, offset)
    if not isinstance(made._data, View):
        raise Unsupported("set_: the source is no tensor of the program or function that the tensor belongs to")
    tensor._data, tensor._storage = made._data, made.storage()
