"""Memory of plain tensors that a trace reads or writes: which tensors show the same, and how.

A tensor that comes into a split function stays the plain tensor that it is. Its memory is the trace's input, and what
is written into it waits as the base of a family and goes back into the memory at the cut.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.functionalizer.operators import PERMUTE, VIEW
from weft.functionalizer.views import path_in_memory
from weft.functionalizer.writes import Path
from weft.lazy.split.payload import Family, SplitPayload
from weft.lazy.values import Array, Deferred, computed
from weft.ops.compute import element_strides
from weft.ops.geometry import Geometry
from weft.runtime.address import address_of
from weft.runtime.storage import Storage, root_of
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.tensor_type import tensor_type

if TYPE_CHECKING:
    from weft.lazy.split.device import SplitDevice



class Home:
    """Memory that plain tensors show, as a trace sees it. root: the array that owns it.

    is_lent: others may write it, and see what is written: it is read as it is now, and written at once. family: the
    memory as a value, once a tensor shows all of it or writes to it; base: its bytes, as the dims of the family; first:
    the value of these.
    parts: values of tensors that show a part, read before anything was written. lasts: its size will hardly change.
    """

    __slots__ = ("base", "device", "family", "first", "is_lent", "lasts", "parts", "root", "views", "whole")

    def __init__(self, device: SplitDevice, root: Array, is_lent: bool, lasts: bool) -> None:
        self.device, self.root, self.is_lent, self.lasts = device, root, is_lent, lasts
        self.family: Family | None = None
        self.base = root
        self.first: Deferred | None = None
        self.views: dict[Any, SplitPayload] = {}
        self.whole: SplitPayload | None = None  # of the tensor whose array is the root
        self.parts: dict[Any, Deferred] = {}

    @property
    def is_written(self) -> bool:
        """Whether what was written waits."""
        return self.family is not None and self.family.generation > 0

    def read(self, data: Array) -> Deferred:
        """The value of a tensor that shows the memory."""
        trace = self.device.trace
        if self.is_lent:
            return computed(trace, np.array(data, order="C"))
        family = self.family
        if data is self.root and family is not None and data.shape == self.base.shape:
            return family.value
        key = _key(data)
        if key in self.views or self.is_written or order_in(data, self.root) is not None:
            return self.view(data, key).read()
        part = self.parts.get(key)
        if part is None:
            part = self.parts[key] = computed(trace, np.asarray(data, order="C"))
        return part

    def view(self, data: Array, key: Any = None) -> SplitPayload:
        """The tensor's array as a view of the family."""
        key = key or _key(data)
        payload = self.views.get(key)
        if payload is None:
            order = order_in(data, self.root)
            family = self.family or self._begin(data, order)
            offset = (address_of(data) - address_of(self.root)) // data.itemsize
            shown = Geometry(data.shape, element_strides(data), offset)
            path = self._path(family, data, order, shown)
            kind = tensor_type(dt.from_numpy(data.dtype), data.shape)
            payload = self.views[key] = SplitPayload(family, path, kind, shown)
            if data is self.root:
                self.whole = payload
        return payload

    def _begin(self, data: Array, order: tuple[int, ...] | None) -> Family:
        base = self.root if order is None else data.transpose(order)
        if not base.flags.c_contiguous:
            base = base.ravel(order="K")
        self.base = base
        self.first = computed(self.device.trace, base)
        self.family = Family(self.device, self.first)
        self.family.place = base
        return self.family

    def _path(self, family: Family, data: Array, order: tuple[int, ...] | None, shown: Geometry) -> Path:
        if order is None:
            return path_in_memory(family, shown, dt.from_numpy(data.dtype))
        path: Path = ()
        dims = tuple([data.shape[i] for i in order])
        if dims != family.type.shape:
            path = ((VIEW, (dims,), 0),)
        if order != tuple(range(data.ndim)):
            path = (*path, (PERMUTE, (tuple(int(i) for i in np.argsort(order)),), 0))
        return path

    def written(self, memory: Container[int]) -> Array | None:
        """What belongs into the memory; a copy where it lies in some memory now. memory: the identities of these."""
        now = None if self.family is None else self.family.value.read()
        if now is None or now is self.base:
            return None
        return now.copy() if id(root_of(now)) in memory else now

    def settle(self, now: Array | None) -> None:
        """Put what was written where it belongs, and have the tensors show it."""
        if now is not None:
            np.copyto(self.base, now)
        if self.family is not None:
            self.family.settle(self.base)


def _key(data: Array) -> Any:
    return data.shape, data.strides, data.dtype, address_of(data)


def order_in(data: Array, root: Array) -> tuple[int, ...] | None:
    """The dims from the outermost in memory to the innermost, where the array shows all of the memory; else None."""
    if data.size != root.size or data.dtype != root.dtype:
        return None
    if data.flags.c_contiguous:
        return tuple(range(data.ndim))
    order = tuple(sorted(range(data.ndim), key=lambda i: (-data.strides[i], i)))
    return order if data.transpose(order).flags.c_contiguous else None


def is_lent(tensor: Tensor) -> bool:
    """Whether others than tensors may get at the memory of a plain tensor."""
    storage = tensor._storage
    if storage is not None:
        return not isinstance(storage, Storage) or storage.is_lent
    return root_of(tensor._data).base is not None
