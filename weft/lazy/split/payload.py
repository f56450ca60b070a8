"""Tensors whose values wait while a split function runs. At the cut they become plain ones: the same objects, over
memory that their aliases share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

import weft.ops.compute as compute
from weft.functionalizer.storage import Order
from weft.lazy.payload import LazyPayload, LazyStorage, known
from weft.lazy.values import Array, Deferred
from weft.runtime.address import address_of
from weft.runtime.storage import Storage, root_of
from weft.tensor.dense import DensePayload
from weft.tensor.tensor import Tensor
from weft.types.unbacked import numbers_in

if TYPE_CHECKING:
    from weft.lazy.split.device import SplitDevice

_memory: Any = Storage.__dict__["array"]  # the slot: of a storage that waits, it holds what brings the bytes


class AwaitedStorage(Storage):
    """The memory of tensors whose value waits: it brings the bytes when they are asked for, and is a Storage then."""

    __slots__ = ()

    @property
    def array(self) -> Array:  # type: ignore[override]
        """The memory, once it is there."""
        memory = _memory.__get__(self)
        if not isinstance(memory, np.ndarray):
            there = memory.bring("storage()")
            memory = _memory.__get__(self)
            memory = memory if isinstance(memory, np.ndarray) else _row_of(there)  # of a place that was not written
        return memory

    @property
    def nbytes(self) -> int:
        """Bytes of the memory."""
        memory = _memory.__get__(self)
        return int(memory.nbytes)

    def offset_of(self, view: Any) -> int:
        """Element offset of a view into this storage: an array, or a payload."""
        memory = _memory.__get__(self)
        if isinstance(view, SplitPayload):
            return known(view.geometry().offset)
        place = memory if isinstance(memory, np.ndarray) else memory.place
        return 0 if place is None else (address_of(view) - address_of(place)) // int(view.dtype.itemsize)

    def is_over(self, root: Array) -> bool:
        """Whether its memory is that of an array; one that waits is none yet."""
        memory = _memory.__get__(self)
        place = memory if isinstance(memory, np.ndarray) else memory.place
        return place is not None and root_of(place) is root

    def silent_alias(self) -> Storage:
        """The same memory under a version counter of its own."""
        memory = _memory.__get__(self)
        return Storage(memory) if isinstance(memory, np.ndarray) else memory.owner()


def let_wait(storage: Storage, family: Family) -> None:
    """Have a storage ask a family for its bytes."""
    _memory.__set__(storage, family)
    storage.__class__ = AwaitedStorage
    family.owners.append(ref(storage))


class Family(LazyStorage):
    """What the aliases of a tensor share while it waits. memory: the bytes of the base once they are there; place: the
    memory that they go to, where there is some already; owners: the storages that tensors have; error: what was raised.
    """

    __slots__ = ("error", "memory", "owners", "place")
    device: SplitDevice

    def __init__(self, device: SplitDevice, value: Deferred, order: Order | None = None) -> None:
        super().__init__(device, value, order)
        self.memory: Array | None = None
        self.place: Array | None = None
        self.owners: list[ref[Storage]] = []
        self.error: BaseException | None = None

    def owner(self) -> Storage:
        """A storage for tensors, with a version counter of its own."""
        if self.memory is not None:
            return Storage(self.memory)
        storage = Storage.__new__(AwaitedStorage)
        storage.version, storage.written, storage._address, storage.loans = 0, None, None, None
        storage.is_inference = self.is_inference
        let_wait(storage, self)
        return storage

    def bring(self, what: str) -> Array:
        """The bytes of the base; the trace is cut if they are not there. Raises what computing them raised."""
        if self.place is not None and not self.generation:
            return self.place
        if self.memory is None and self.error is None:
            self.device.cut_for(what)
        if self.error is not None:
            raise self.error
        assert self.memory is not None
        return self.memory

    def settle(self, memory: Array) -> None:
        """The bytes are there, and the aliases' own."""
        self.memory = memory
        root = _row_of(memory)
        for owner in self.owners:
            storage = owner()
            if storage is not None:
                _memory.__set__(storage, root)
                storage.__class__ = Storage
        self.owners.clear()
        self.update = None


def _row_of(memory: Array) -> Array:
    root = root_of(memory)
    return root if root.flags.c_contiguous else root.ravel(order="K")


class SplitPayload(LazyPayload):
    """A view of a family. It is plain once the family has its bytes: `dense` gives the array then."""

    __slots__ = ()
    storage: Family

    @property
    def waits(self) -> bool:
        """Whether the bytes are not there."""
        return self.storage.memory is None

    def dense(self, what: str) -> Array:
        """The array that the tensor shows, over memory that it shares with its aliases."""
        data = self.storage.bring(what)
        for op, args, index in self.path:
            views = compute.view(op, data, numbers_in(args))
            assert views is not None, "what was a view is one of the bytes too"
            data = views[index] if isinstance(views, (tuple, list)) else views
        return data

    def plain(self, what: str) -> DensePayload:
        """The payload of the plain tensor."""
        array = self.dense(what)
        return DensePayload(array, self._storage())

    def _storage(self) -> Storage:
        live = [s for s in (owner() for owner in self.storage.owners) if s is not None]
        return live[0] if live else self.storage.owner()

    # ---- what tensors ask
    def materialize(self, what: str) -> Array:
        return self.dense(what)

    def array(self, what: str) -> Array:
        return self.dense(what)

    def whole(self, what: str) -> Array:
        return Storage(self.storage.bring(what)).array.reshape(-1)

    def item(self) -> Any:
        return self.plain("item()").item()

    def fetched(self) -> Array:
        array: Array = self.dense("to('cpu')").copy()
        return array

    def data_ptr(self, owner: Tensor) -> int:
        array = self.dense("data_ptr()")
        owner._data = array
        return DensePayload(array, owner._storage).data_ptr(owner)

    def shares_memory(self, other: Any) -> bool:
        if isinstance(other, SplitPayload):
            return other.storage is self.storage
        return (
            isinstance(other, np.ndarray) and not self.waits
            and np.may_share_memory(self.dense("shares_memory"), other)
        )

    def overlaps(self, other: Any) -> bool:
        if isinstance(other, SplitPayload):
            return self.meets(other)
        return self.shares_memory(other) and DensePayload(self.dense("shares_memory"), None).overlaps(other)

    def new_storage(self) -> Storage:  # type: ignore[override]
        return self._storage()

    def copy_to(self, out: Tensor, memo: dict[int, Any]) -> None:
        self.plain("deepcopy").copy_to(out, memo)

    def rewrapped(self, out: Tensor) -> Tensor:
        if self.waits:
            self.storage.device.note(out)
        return out


class ReadOnce(SplitPayload):
    """Memory that is read as it is now, as an operand of a recorded rule; no tensor has it."""

    __slots__ = ()
    is_apart = True

    def __init__(self, family: Family) -> None:
        super().__init__(family, (), family.value.type_)
