"""Lazy tensors: views of storages whose base is a deferred value. Writes give the base another value, and aliases read
it from then on: before a cut and after it.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, Protocol
from weakref import WeakValueDictionary, ref

import numpy as np

import weft.ops.compute as compute
from weft.functionalizer.other_memory import resize_base
from weft.functionalizer.recorder import Calls
from weft.functionalizer.storage import Order, Storage
from weft.functionalizer.view import View
from weft.functionalizer.writes import Path, write_path
from weft.lazy.trace import Trace
from weft.lazy.values import Array, Deferred, computed
from weft.ops.geometry import Geometry, contiguous
from weft.ops.layout import is_dense, like_strides, ordered
from weft.support import limits
from weft.tensor.backend import Backend
from weft.tensor.freed import no_bytes
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.dims import Dim
from weft.types.sym import wrap
from weft.types.tensor_type import TensorType, tensor_type
from weft.types.unbacked import SIZES, numbers_in, settled_in, settled_type, tell


class Shower(Protocol):
    """The rules of a device, as far as payloads ask them."""

    def show(self, value: Deferred, path: Any) -> Deferred:
        """What a path of views shows of a value."""


class Device(Protocol):
    """A lazy device (device.py), as its payloads know it. addressed: by the identity of their values, the storages
    whose address somebody has asked for."""

    name: str
    backend: Backend
    addressed: WeakValueDictionary[int, LazyStorage]

    @property
    def trace(self) -> Trace:
        """Where calls wait."""

    @property
    def rules(self) -> Shower | None:
        """What repeats paths of views."""

    def bytes_of(self, value: Deferred, what: str) -> Array:
        """The array of a value, which is computed if it waits."""

    def laid_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """What a `*_like` factory made, in its source's order of dims."""


_ids = itertools.count(1)
NO_QUESTIONS: list[Any] = []  # questions about sizes: there are none where sizes are numbers


def known(dim: Dim) -> int:
    """A size, stride or offset of a lazy tensor, as a number."""
    return SIZES.hint(dim)


def row_major(kind: TensorType) -> Geometry:
    """The geometry of a dense tensor of a type."""
    return contiguous(kind.shape) if kind.is_symbolic else _row_major(kind)


@lru_cache(maxsize=limits.LAZY_TYPES)
def _row_major(kind: TensorType) -> Geometry:
    return contiguous(kind.shape)


@lru_cache(maxsize=limits.LAZY_TYPES)
def _at(kind: TensorType, device: str) -> TensorType:
    return tensor_type(kind.dtype, kind.dims, device)


def at_device(kind: TensorType, device: Device) -> TensorType:
    """The type of a tensor on a device."""
    return _at(kind, device.name)


def laid_out(kind: TensorType, order: Order | None) -> Geometry:
    """The geometry of a dense tensor of a type, its dims in an order in memory (None: row-major)."""
    return row_major(kind) if order is None else ordered(kind.shape, order)


class LazyStorage(Storage[Deferred]):
    """What the aliases of a lazy tensor share. update: the latest write, if it was to a part: its path, the base before
    it and behind it. A second write to the same part takes its place. settled: the base's latest value that has bytes.
    lasts: whether a program computed its value before this trace, or an optimizer updates it. is_resized: whether some
    alias may show more than there is.
    """

    __slots__ = ("device", "is_resized", "lasts", "settled", "update")

    def __init__(self, device: Device, value: Deferred, order: Order | None = None) -> None:
        self.value, self.order, self.device = value, order, device
        kind = self.type = value.type_
        self.is_row_major = order is None
        self.geometry = laid_out(kind, order)
        self.version = self.generation = 0
        self.questions, self.partner, self.written = NO_QUESTIONS, None, None
        self.update: tuple[Path, Deferred, Deferred] | None = None
        self.settled: ref[Deferred] | None = None
        self.lasts = self.is_inference = self.is_resized = False
        if value.cell is None:
            device.trace.storages[id(self)] = ref(self)
        if kind.is_symbolic:
            tell(self, kind.shape)

    def learn_sizes(self) -> None:
        """Sizes that were not known are."""
        if not self.type.is_symbolic:
            return
        kind = self.type = settled_type(self.type)
        self.geometry = laid_out(kind, self.order)

    @property
    def nbytes(self) -> Any:
        """Bytes of the base."""
        return wrap(self.bytes_there(), SIZES)

    @property
    def address(self) -> int:  # type: ignore[override]
        """Where the base's bytes lie; asks for them. A storage with the same value as another one whose address was
        asked for gets bytes of its own.
        """
        array = self.device.bytes_of(self.value, "data_ptr()")
        other = self.device.addressed.get(id(self.value))
        if other is not None and other is not self and other.value is self.value:
            array = np.array(array, order="C")
            self.replace(computed(self.device.trace, array))
        self.device.addressed[id(self.value)] = self
        return int(array.ctypes.data)

    def offset_of(self, payload: LazyPayload) -> int:
        """The place of a view's first element, in elements."""
        return known(payload.geometry().offset)

    def is_waiting(self) -> bool:
        """Whether no program has been asked for the base. Once one has, the base before the latest write is let go."""
        if self.value.cell is None:
            return True
        self.update = None
        return False

    def replace(self, value: Deferred) -> None:
        """Let another value stand for the base."""
        before = self.value
        if before.cell is not None:
            self.settled = ref(before)
        self.value = value
        self.generation += 1
        if value.cell is None:
            self.device.trace.storages[id(self)] = ref(self)

    write = replace  # numbers leave no questions open

    def put(self, path: Path, new: Deferred, is_splat: bool) -> None:
        """Write a value to the part that a path shows."""
        before = self.value
        if before.cell is None and self.update is not None and self.update[0] == path and self.update[2] is before:
            before = self.update[1]
        whole = write_path(CALLS, before, path, new, is_splat)
        self.write(whole)
        self.update = (path, before, whole)

    def overwrite(self, array: Array) -> None:
        """Give the base other elements."""
        self.write(computed(self.device.trace, np.array(array, order="C")))

    def as_tensor(self) -> Tensor:
        """A tensor that shows the base."""
        return tensor_around(LazyPayload(self, (), self.type))

    def resize(self, nbytes: Dim) -> None:
        """Have so many bytes."""
        resize_base(self, CALLS, nbytes)
        self.update = self.settled = None
        self.is_resized = True

    @property
    def queued(self) -> int:
        """How many writes to parts wait."""
        return int(self.update is not None and self.update[2] is self.value and self.value.cell is None)


CALLS = Calls()  # the functionalizer's recorder: operators accept deferred values


class LazyPayload(Payload, View[Deferred]):
    """A view of a lazy storage."""

    __slots__ = ("__weakref__", "identity", *View.SLOTS)
    storage: LazyStorage
    has_bytes = True  # they can be asked for
    is_walked = True  # (by Lazy.walked)
    is_apart = False  # whether it was made to be read once, and writes to it are seen by nobody

    def __init__(
        self, storage: LazyStorage, path: Path, kind: TensorType, geometry: Geometry | None = None
    ) -> None:
        self.storage, self.path = storage, path
        self._geometry = geometry if path else storage.geometry
        self._memo, self._generation = None, -1
        self.permuted = None if path or not storage.is_row_major else False
        self.identity = 0
        if kind.is_symbolic or storage.type.is_symbolic:
            self.type = tensor_type(kind.dtype, kind.dims, storage.device.name)
            tell(self, kind.shape, storage.type.shape)
        else:
            self.type = _at(kind, storage.device.name)

    def learn_sizes(self) -> None:
        """Sizes that were not known are."""
        storage = self.storage
        storage.learn_sizes()  # (its turn may be later)
        self.type = settled_type(self.type)
        self.path = tuple([(op, settled_in(args), index) for op, args, index in self.path])
        g = self._geometry
        if not self.path:
            self._geometry = storage.geometry
        elif g is not None:
            self._geometry = Geometry(settled_in(g.dims), settled_in(g.strides), settled_in(g.offset))

    @property
    def env(self) -> Any:
        """What knows sizes that no program has found yet."""
        return SIZES if self.type.is_symbolic or self.storage.type.is_symbolic else None

    def offset(self) -> Any:
        """The place of the first element in the storage."""
        return wrap(self.geometry().offset, SIZES)

    @property
    def is_row_major(self) -> bool:  # type: ignore[override]
        """Whether it is all of a row-major storage."""
        return self.permuted is False and not self.path

    @property
    def backend(self) -> Backend:  # type: ignore[override]
        """That of the device that it is on."""
        return self.storage.device.backend

    def geometry(self) -> Geometry:
        """Dims and strides as eager mode would have them."""
        return View.geometry(self)

    def read(self) -> Deferred:
        """The value now."""
        storage = self.storage
        if not self.path:
            return storage.value
        memo = self._memo
        if memo is not None and memo.node is not None and memo.node.epoch != storage.device.trace.epoch:
            self._memo = None  # it was cut off: the base, which is there, shows it
        rules = storage.device.rules
        if storage.is_resized:
            self.refuse_short("a lazy tensor")
        if rules is None or storage.type.is_symbolic:
            return self.read_with(CALLS)
        if self._memo is None or self._generation != storage.generation:
            self._memo, self._generation = rules.show(storage.value, self.path), storage.generation
        return self._memo

    def refuse_short(self, what: str) -> None:
        """Raises StateError where the storage was made too small for what is shown."""
        if self.storage.is_short_of(self.geometry(), self.dtype.itemsize):
            raise no_bytes(what, self.shape, self.storage.nbytes)

    def renew(self) -> None:
        """What this shows is about to be overwritten. If that is all of a base whose computation has failed, the base
        is sound again, for its old value is not needed.
        """
        value = self.storage.value
        if value.cell is None or value.cell.error is None or value.type_.is_symbolic:
            return
        if self.type.dtype is value.dtype and self.type.numel == value.type_.numel and is_dense(self.geometry()):
            self.storage.replace(computed(value.trace, np.zeros(value.type_.shape, value.dtype.numpy)))

    def remember(self, value: Deferred) -> None:
        """What was just written here is what is read here."""
        self._memo, self._generation = value, self.storage.generation

    # ---- bytes
    def array(self, what: str) -> Array:
        """The bytes as they are kept: not to be written, and not to be handed out."""
        storage = self.storage
        if storage.is_resized:
            self.refuse_short(what)
        data = storage.device.bytes_of(storage.value, what)
        for op, args, index in self.path:
            out = compute.evaluate(op, compute.laid_out(op, (data, *numbers_in(args))))
            data = out[index] if isinstance(out, (tuple, list)) else out
        return data

    def materialize(self, what: str) -> Any:
        """A copy of the bytes, in memory as eager mode would have them."""
        array = self.array(what)
        g = self.geometry()
        strides: Any = like_strides(Geometry(numbers_in(g.dims), numbers_in(g.strides)))
        memory = np.empty(array.size, array.dtype)
        size = array.dtype.itemsize
        out: Array = np.ndarray(array.shape, memory.dtype, memory, 0, tuple([s * size for s in strides]))
        out[...] = array
        return out

    def whole(self, what: str) -> Array:
        """A copy of the base's bytes as eager mode would have them."""
        base = LazyPayload(self.storage, (), self.storage.type).materialize(what)
        return np.asarray(base.ravel(order="K"))

    def item(self) -> Any:
        """The only element as a Python number."""
        if self.storage.type.numel == 1 or self.type.numel != 1:
            return super().item()
        array = self.array("item()")
        return array.item() if array.dtype.kind != "V" else float(array.reshape(()))

    def fetched(self) -> Any:
        """A copy of the bytes for a tensor on the CPU."""
        return self.materialize("to('cpu')")

    def data_ptr(self, owner: Tensor) -> int:
        """The address of the first element, until the next write."""
        return self.storage.address + known(self.geometry().offset) * self.dtype.itemsize

    # ---- aliases and copies
    def shares_memory(self, other: Any) -> bool:
        """Whether both show the same storage."""
        return isinstance(other, LazyPayload) and other.storage is self.storage

    def overlaps(self, other: Any) -> bool:
        """Whether both are blocks of one storage that meet."""
        return self.meets(other)

    def new_storage(self) -> LazyStorage:
        """What its aliases share."""
        return self.storage

    def copied(self) -> LazyPayload:
        """An independent copy: values are never written, so that it is the same one."""
        value = self.read()
        order = None if self.path else self.storage.order
        return LazyPayload(LazyStorage(self.storage.device, value, order), (), value.type_)

    def copy_to(self, out: Tensor, memo: dict[int, Any]) -> None:
        """Give an empty tensor a copy; tensors that share a storage share its copy."""
        storage = memo.get(id(self.storage))
        if storage is None:
            mine = self.storage
            storage = memo[id(mine)] = LazyStorage(mine.device, mine.value, mine.order)
        out._data = LazyPayload(storage, self.path, self.type, self._geometry)
        out._storage, out._autograd, out._view = storage, None, None

    def copied_like(self, tensor: Tensor) -> Tensor | None:
        """A copy, if both lie row-major."""
        other = tensor._data
        if type(other) is not LazyPayload or other.path or self.path or not (
            self.storage.is_row_major and other.storage.is_row_major
        ):
            return None
        return fresh(self.storage.device, self.storage.value)

    def note_inference(self, owner: Tensor) -> None:
        """The owner was made in inference mode."""
        owner.storage().is_inference = True

    def laid_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """A new tensor with the dims in its source's order."""
        return self.storage.device.laid_out_like(tensor, source)

    def tensor_id(self) -> int:
        """A number of its own."""
        if not self.identity:
            self.identity = next(_ids)
        return self.identity


def fresh(device: Device, value: Deferred, order: Order | None = None) -> Tensor:
    """A tensor with memory of its own around a value, its dims in an order in memory (None: row-major)."""
    out = new(Tensor)
    storage = out._storage = LazyStorage(device, value, order)
    out._data = LazyPayload(storage, (), value.type_)
    out._autograd = out._view = None
    return out


new = object.__new__


def received(device: Device, array: Array, order: Order | None = None) -> Tensor:
    """A tensor around bytes, which become its own."""
    return fresh(device, computed(device.trace, array), order)
