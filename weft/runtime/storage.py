"""Storage: the bytes behind tensors and their version counter. The unit of state:
every alias of a tensor shares one."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import ref

import numpy as np

from weft.runtime.address import address_of
from weft.runtime.moving import NOT_RESIZABLE, Move, everything_of, holders
from weft.support import seams
from weft.support.errors import ArgumentError, OutOfBounds, StateError, too_large

Array = np.ndarray[Any, Any]


class Loan:
    """Memory as bytes, for arrays that are handed out. Each of them, and each array that others make of these, holds
    the first one that NumPy made of the loan: when that has gone, the borrowers have let go.
    """

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: Array) -> None:
        self.array = array
        data = (address_of(array), not array.flags.writeable)
        self.__array_interface__ = {"data": data, "shape": (array.nbytes,), "typestr": "|u1", "version": 3}


class Loans:
    """Who may write a block of memory beside tensors; all storages of the block have the same one. for_good: somebody
    may whose end nobody sees; is_fixed: it is somebody else's memory, which stays where it is.
    """

    __slots__ = ("_latest", "for_good", "is_fixed")

    def __init__(self) -> None:
        self.for_good = self.is_fixed = False
        self._latest: ref[Array] | None = None

    @property
    def are_open(self) -> bool:
        """Whether somebody may."""
        return self.for_good or self.are_out

    @property
    def are_out(self) -> bool:
        """Whether somebody has an array of it."""
        return self._latest is not None and self._latest() is not None

    def lend(self, array: Array) -> Array:
        """The memory as bytes, to be shown to others."""
        loan = None if self._latest is None else self._latest()
        if loan is None:
            loan = np.asarray(Loan(array))
            self._latest = ref(loan)
        return loan


class ElementRow:
    """A storage of any kind as Python sees it: a row of elements."""

    __slots__ = ()
    nbytes: Any

    def elements(self, what: str) -> Array:
        """All elements in a row, to be read at once. Raises an error for `what` where there are none."""
        raise NotImplementedError

    def edited(self, what: str) -> AbstractContextManager[Array]:
        """Within the block, all elements in a row: what is written to them is in the storage behind the block."""
        raise NotImplementedError

    def element_size(self) -> int:
        """Bytes per element."""
        raise NotImplementedError

    def data_ptr(self) -> Any:
        """Address of the first byte."""
        raise NotImplementedError

    def resize(self, nbytes: Any) -> None:
        """Have so many bytes."""
        raise NotImplementedError

    @property
    def memory(self) -> object:
        """What all storages of the same memory have in common (`.data` has one of its own)."""
        return self

    def size(self) -> Any:
        """The number of elements."""
        return self.nbytes // self.element_size()

    def __len__(self) -> int:
        return operator.index(self.size())

    def __getitem__(self, index: int) -> Any:
        """The element at a place. Raises StateError for a slice:
        only bytes have slices (`tensor.untyped_storage()[a:b]`)."""
        if isinstance(index, slice):
            raise StateError(
                "slices are only supported in UntypedStorage.__getitem__: take tensor.untyped_storage()[a:b]"
            )
        row = self.elements("an element of a storage")
        return row[_place(index, row.size, self)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        with self.edited("a write to a storage") as row:
            row[index] = value

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self)

    def tolist(self) -> list[Any]:
        """The elements in order."""
        elements: list[Any] = self.elements("the elements of a storage").tolist()
        return elements

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        return Storage(self.elements("a copy of a storage").copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return Storage, (self.elements("a copy of a storage").copy(),)


class Storage(ElementRow):
    """One block of memory, held as the NumPy array that owns it, with a version that every in-place write raises.

    `written` is (version, mark) of the latest write by an in-place operator, for the version error;
    marks are support/locations.py's. loans: to others than tensors, once there were any. is_inference: whether tensors
    of inference mode have it, whose versions are nobody's business.
    """

    __slots__ = ("__weakref__", "_address", "array", "is_inference", "loans", "version", "written")

    def __init__(self, array: Array) -> None:
        root = root_of(array)
        self.array = root if root.flags.c_contiguous else root.ravel(order="K")
        self.version = 0
        self.written: Any = None
        self._address: int | None = None
        self.loans: Loans | None = None
        self.is_inference = False

    @property
    def address(self) -> int:
        """Address of the first byte, cached."""
        if self._address is None:
            self._address = address_of(self.array)
        return self._address

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def silent_alias(self) -> Storage:
        """The same memory under a version counter of its own (Tensor.data)."""
        twin = type(self)(self.array)
        twin.loans, twin.is_inference = self._loans(), self.is_inference
        return twin

    # ---- others than tensors
    @property
    def is_lent(self) -> bool:
        """Whether others than tensors, such as NumPy arrays, may write the memory."""
        return self.loans is not None and self.loans.are_open

    def _loans(self) -> Loans:
        if self.loans is None:
            self.loans = Loans()
        return self.loans

    def lend(self, is_fixed: bool = False) -> None:
        """Note that the memory may be written by others, from now on. is_fixed: it is theirs."""
        loans = self._loans()
        loans.for_good = True
        loans.is_fixed = loans.is_fixed or is_fixed

    # ---- another size
    def is_over(self, root: Array) -> bool:
        """Whether its memory is that of an array."""
        return root_of(self.array) is root

    @property
    def is_resizable(self) -> bool:
        """Whether the memory is tensors' alone, so that it can have another size."""
        loans = self.loans
        is_own = root_of(self.array).base is None and self.array.flags.writeable
        return is_own and (loans is None or not (loans.is_fixed or loans.are_out))

    def refuse_fixed(self) -> None:
        """Raises StateError where it is not resizable."""
        if not self.is_resizable:
            raise StateError(f"{NOT_RESIZABLE}: a NumPy array or another object has it. clone() the tensor first")

    def resize(self, nbytes: int) -> None:
        """Have so many bytes, the old ones in front; tensors that show more than there is cannot be read until there is
        enough again. Raises StateError where others than tensors have the memory.
        """
        before = self.array
        if nbytes == before.nbytes:
            return
        self.refuse_fixed()
        root = root_of(before)
        storages = [x for x in everything_of(Storage) if x.is_over(root)]  # `.data` has its own
        users = [x for x in holders(*storages) if hasattr(type(x), "_follow")]
        for user in users:
            user._may_follow()
        move = Move(before, resized(before, nbytes))
        for storage in storages:
            storage.array, storage._address = move.memory, None
        for user in users:
            user._follow(move)

    def lent_view(self, view: Array) -> Array:
        """What a view of the memory shows, for others: while they have it, or arrays made of it, the memory is lent."""
        whole = self.array
        offset = address_of(view) - self.address if view.size else 0
        lent: Array = np.ndarray(view.shape, view.dtype, self._loans().lend(whole), offset, view.strides)
        if not view.flags.writeable:
            lent.flags.writeable = False
        return lent

    # ---- what Python asks
    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self.address

    def element_size(self) -> int:
        """Bytes per element."""
        return self.array.itemsize

    @property
    def memory(self) -> object:
        """What all storages of the same memory have in common."""
        return self._loans()

    def elements(self, what: str) -> Array:
        """The memory as a row of elements."""
        seams.storage_accessed(self, what)
        return self.array.reshape(-1)

    @contextmanager
    def edited(self, what: str) -> Iterator[Array]:
        """The memory as a row of elements, which are written."""
        yield self.elements(what)
        self.version += 1

    def offset_of(self, view: Array) -> int:
        """Element offset of a view into this storage."""
        if view is self.array:
            return 0
        offset = (address_of(view) - self.address) // int(view.dtype.itemsize)
        return offset if view.size or 0 <= offset <= self.nbytes // view.dtype.itemsize else 0

    def row(self, dtype: np.dtype[Any]) -> Array:
        """All of the memory as elements of a dtype; bytes at the end that make no element are not shown."""
        row = self.array.reshape(-1)
        if row.dtype == dtype:
            return row
        if row.nbytes % dtype.itemsize == 0:
            return row.view(dtype)
        whole: Array = np.ndarray(row.nbytes // dtype.itemsize, dtype, row)
        return whole

    def view(self, dims: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: np.dtype[Any]) -> Array:
        """An array over the same memory; strides and offset in elements of `dtype`."""
        size = dtype.itemsize
        view: Array = np.ndarray(dims, dtype, self.array, offset * size, tuple(s * size for s in strides))
        return view


class UntypedStorage:
    """A storage as its bytes, for users: address, size, single bytes, and slices, which are storages
    over the same bytes.

    `UntypedStorage(4)` is a new one of so many bytes, `UntypedStorage([1, 2])` one of these.
    """

    __slots__ = ("_begin", "part", "storage")

    def __init__(self, source: Any = 0, begin: int = 0, size: int | None = None) -> None:
        if isinstance(source, int):
            source = np.zeros(source, np.uint8)
        elif isinstance(source, Sequence):
            source = np.array(list(source), np.uint8)
        self.storage: ElementRow = Storage(source) if isinstance(source, np.ndarray) else source
        self._begin = begin
        self.part = size  # None: all of it, however large it is

    def in_elements(self, itemsize: int) -> tuple[int, int | None]:
        """Where in the storage it begins, and how many elements of so many bytes it has (None: all that there are).
        Raises StateError for a part that begins within an element."""
        if self._begin % itemsize:
            raise StateError(f"set_(): a part begins at byte {self._begin}, within an element of {itemsize} bytes")
        return self._begin // itemsize, None if self.part is None else self.part // itemsize

    def data_ptr(self) -> int:
        """Address of the first byte."""
        address: int = self.storage.data_ptr() + self._begin
        return address

    def nbytes(self) -> int:
        """The number of bytes."""
        size: int = self.storage.nbytes if self.part is None else self.part
        return size

    def resizable(self) -> bool:
        """Whether it can have another size: no object but tensors shows the memory."""
        return self.part is None and bool(getattr(self.storage, "is_resizable", True))

    def resize_(self, size: int) -> UntypedStorage:
        """Have so many bytes, with the old ones in front, for all tensors that show the storage; one that shows more
        than there is cannot be read until there is enough again. Returns self. Raises StateError where others than
        tensors have the memory.
        """
        if self.part is not None:
            raise StateError(f"{NOT_RESIZABLE}: it is a part of one")
        self.storage.resize(operator.index(size))
        return self

    size = __len__ = nbytes

    def element_size(self) -> int:
        """1: its elements are bytes."""
        return 1

    def _bytes(self, row: Array) -> Array:
        everything: Array = row.view(np.uint8)
        return everything[self._begin : self._begin + self.nbytes()]

    def __getitem__(self, index: Any) -> Any:
        """A byte as a number, or the storage of a slice. Raises OutOfBounds, ArgumentError, and StateError for
        a slice with a step."""
        if isinstance(index, slice):
            begin, end = self._reach(index)
            return UntypedStorage(self.storage, self._begin + begin, end - begin)
        there = self._bytes(self.storage.elements("a byte of a storage"))
        return int(there[_place(index, self.nbytes(), self)])

    def __setitem__(self, index: Any, value: int) -> None:
        """Write a byte at a place, or at all places of a slice: the number's last eight bits."""
        if not isinstance(value, int):
            raise StateError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        where = slice(*self._reach(index)) if isinstance(index, slice) else _place(index, self.nbytes(), self)
        with self.storage.edited("a write to a storage") as row:
            self._bytes(row)[where] = value & 0xFF

    def _reach(self, index: slice) -> tuple[int, int]:
        begin, end, step = index.indices(self.nbytes())
        if step != 1:
            raise StateError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
        return begin, max(begin, end)

    def untyped(self) -> UntypedStorage:
        """Itself: its elements are bytes."""
        return self

    def copy_as(self, dtype: np.dtype[Any]) -> Array:
        """A copy of the bytes as elements of a dtype; bytes at the end that make no element are left out."""
        row = self._bytes(self.storage.elements("the bytes of a storage"))
        copy: Array = np.frombuffer(row[: row.size - row.size % dtype.itemsize].tobytes(), dtype).copy()
        return copy

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        numbers: list[int] = self._bytes(self.storage.elements("the bytes of a storage")).tolist()
        return numbers

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UntypedStorage) and self.storage.memory is other.storage.memory
            and (self._begin, self.part) == (other._begin, other.part)
        )

    def __hash__(self) -> int:
        return hash((id(self.storage.memory), self._begin, self.part))


def _place(index: Any, size: int, storage: object) -> int:
    """A place counted from the front."""
    if not hasattr(index, "__index__"):
        raise ArgumentError(f"can't index a {type(storage).__name__} with {type(index).__name__}")
    at = operator.index(index)
    if not -size <= at < size:
        raise OutOfBounds(f"index {at} out of range for storage of size {size}")
    return at % size


def resized(array: Array, nbytes: int) -> Array:
    """A copy of an array's bytes in a row, with others behind them or fewer of them; of its dtype, if that divides
    them. What is new is 0."""
    if nbytes < 0:
        raise StateError(f"Trying to resize a storage to {nbytes} bytes")
    dtype = array.dtype if nbytes % array.itemsize == 0 else np.dtype(np.uint8)
    try:
        copy = np.zeros(nbytes // dtype.itemsize, dtype)
    except (MemoryError, ValueError) as problem:
        raise too_large("resize", problem) or problem from None
    kept = min(nbytes, array.nbytes)
    copy.view(np.uint8)[:kept] = array.reshape(-1).view(np.uint8)[:kept]
    return copy


def root_of(array: Array) -> Array:
    """The array that owns (or first exposed) the memory, contiguous."""
    while (base := array.base) is not None:
        if type(base) is np.ndarray:
            array = base
        elif type(base) is Loan:
            array = base.array
        else:
            break
    return array
