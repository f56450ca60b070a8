"""resize_ and set_ of tensors whose memory is a value: they show other elements of it, or another storage. And another
size for that memory, whatever shows it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from weft.functionalizer.operators import AS_STRIDED, PAD, PERMUTE, RESHAPE
from weft.functionalizer.recorder import Recorder
from weft.functionalizer.storage import SilentStorage, Storage
from weft.functionalizer.view import View
from weft.functionalizer.writes import Path
from weft.ops.geometry import Geometry, contiguous, contiguous_strides
from weft.ops.packet import aten
from weft.runtime.moving import holders
from weft.runtime.storage import UntypedStorage
from weft.support.errors import StateError, Unsupported
from weft.tensor.history import ViewOf
from weft.tensor.tensor import Tensor
from weft.types import dims as dm
from weft.types.dims import Dim

V = TypeVar("V")


def resize(tensor: Tensor, dims: tuple[int, ...]) -> None:
    """Show the storage row-major with these sizes, and more of it where they need more. Raises what making the storage
    larger does.
    """
    data = tensor._data
    data.storage.grow(replace(contiguous(dims), offset=data.geometry().offset), tensor.element_size())
    resized: Tensor = tensor.as_strided(dims, contiguous_strides(dims))
    before, after = tensor._view, resized._view
    if before is not None and after is not None:
        tensor._view = ViewOf(after.base, after.path, before.creation, after.array)
    tensor._data = resized._data
    tensor._storage.version += 1


def resize_base(storage: Storage[V], recorder: Recorder[V], nbytes: Dim) -> None:
    """Let the base of a storage be a row of so many bytes, the old ones in front and zeros behind. An alias that shows
    more than there is fails when it is read.
    """
    kind, dtype = storage.type, storage.type.dtype
    assert dtype is not None
    there, count = dm.product(kind.shape), dm.floordiv(nbytes, dtype.itemsize)
    value = _as_a_row(storage, recorder, there)
    (value,) = recorder.emit(PAD, (value, (0, count - there), 0))  # fewer than none: elements are cut off
    storage.replace(value)
    storage.type, storage.geometry, storage.order = recorder.type_of(value), contiguous((count,)), None
    storage.is_row_major = True


def _as_a_row(storage: Storage[V], recorder: Recorder[V], count: Dim) -> V:
    """The base's elements as they lie in memory, one after the other; aliases find theirs by their places in it."""
    value, order, g = storage.value, storage.order, storage.geometry
    if order is not None:
        (value,) = recorder.emit(PERMUTE, (value, order))
    if len(storage.type.shape) != 1:
        (value,) = recorder.emit(RESHAPE, (value, (count,)))
    assert g is not None
    for view in holders(storage):
        if isinstance(view, View):
            view.path, view.permuted = from_row(view.path, replace(g, offset=0)), None
    return value


def from_row(path: Path, g: Geometry) -> Path:
    """A path from a base as one from the row of elements in which the base lies so."""
    if path and path[0][0] is AS_STRIDED and g.strides == contiguous_strides(g.dims):
        dims, strides, offset = path[0][1]
        return (AS_STRIDED, (dims, strides, offset + g.offset), 0), *path[1:]
    return (AS_STRIDED, (g.dims, g.strides, g.offset), 0), *path


def show(tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
    """Show what another tensor shows, or elements of its storage or of one that is given, which becomes larger where it
    must; nothing without a source. Raises StateError for another dtype, Unsupported for what is none of the program.
    """
    if source is None:
        source = aten.empty((0,), dtype=tensor.dtype)
    if not isinstance(source, Tensor):
        itemsize, first, count = tensor.element_size(), 0, None
        if isinstance(source, UntypedStorage):
            first, count = source.in_elements(itemsize)
            source = source.storage
        source = source.target if isinstance(source, SilentStorage) else source
        if not isinstance(source, Storage):
            raise Unsupported(_FOREIGN)
        if size is None:
            size = ((dm.floordiv(source.bytes_there(), itemsize) if count is None else count) - offset,)
        source, offset = _as_row(source, tensor), first + offset
    if source.dtype is not tensor.dtype:
        raise StateError(f"Could not set tensor of type {source.dtype} to a tensor of type {tensor.dtype}")
    if size is None:
        shown = aten.alias(source)
    else:
        dims = tuple(size)
        strides = contiguous_strides(dims) if stride is None else tuple(stride)
        if isinstance(source._data, View):
            source._data.storage.grow(Geometry(dims, strides, offset), tensor.element_size())
        shown = source.as_strided(dims, strides, offset)
    if not isinstance(shown._data, View):
        raise Unsupported(_FOREIGN)
    tensor._data, tensor._storage = shown._data, shown.storage()


def _as_row(storage: Storage[Any], like: Tensor) -> Tensor:
    """All of a storage, as elements of a tensor's dtype."""
    row: Tensor = storage.as_tensor()
    if row.dtype is not like.dtype:
        row = row.as_strided((row.numel(),), (1,), 0).view(like.dtype)
    return row


_FOREIGN = "set_: the source is no tensor or storage of the program or function that the tensor belongs to"
