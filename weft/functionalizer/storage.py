"""What a family of aliases shares: the value of its base now, and how many writes there were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np

from weft.ops.geometry import Geometry, contiguous, reach
from weft.runtime.storage import Array, ElementRow
from weft.support import limits
from weft.support.memo import Memo
from weft.types import shape_env
from weft.types.dims import Dim, product
from weft.types.relation import ShapeGuard
from weft.types.tensor_type import TensorType

V = TypeVar("V")
Order = tuple[int, ...]  # dims from the outermost in memory to the innermost


_ROW_MAJOR: Memo[TensorType, Geometry] = Memo(limits.TENSOR_TYPES)


def row_major(type: TensorType) -> Geometry | None:
    """The row-major geometry of a type whose dims are known."""
    geometry = _ROW_MAJOR.get(type)
    if geometry is None and type.is_complete:
        geometry = contiguous(type.shape)
        if not type.is_passing:
            _ROW_MAJOR[type] = geometry
    return geometry


class Storage(ElementRow, Generic[V]):
    """The base of a family of aliases: its value now. A write makes a new value; `generation` tells readers to look
    again.

    The value may also be replaced by an equal one (what was deferred is computed): aliases read the new one from then
    on.

    `geometry` is how the base lies in memory as the user sees it: dense in the order `order` of its dims (None:
    row-major), or with a caller's gaps. `questions` are guards that matter only if an alias is written; `partner` is
    the storage that this one was copied from under such questions. `version` counts the writes that autograd must know
    of. `is_inference`: whether it was made in inference mode.
    """

    __slots__ = (
        "__weakref__", "generation", "geometry", "is_inference", "is_row_major", "order", "partner", "questions",
        "type", "value", "version", "written",
    )
    address = 0

    def __init__(
        self, value: V, type: TensorType, geometry: Geometry | None = None, order: Order | None = None
    ) -> None:
        self.value, self.type, self.order = value, type, order
        self.is_row_major = geometry is None and order is None  # (not asked of its dims, which takes longer)
        self.geometry = geometry if geometry is not None else row_major(type)
        self.version = 0
        self.generation = 0
        self.is_inference = False
        self.questions: list[ShapeGuard] = []
        self.partner: Storage[V] | None = None
        self.written: Any = None

    def write(self, value: V) -> None:
        """Give the base another value."""
        self.replace(value)
        self.ask()

    def replace(self, value: V) -> None:
        """Let another value stand for the same one; readers look again."""
        self.value = value
        self.generation += 1

    def ask(self) -> None:
        """Make the open questions about aliasing (of this storage and of the one it was copied from) into guards."""
        for storage in (self, self.partner):
            if storage is not None:
                for guard in storage.questions:
                    storage.keep(guard)
                storage.questions.clear()

    def keep(self, guard: ShapeGuard) -> None:
        """From now on the answer matters (where there are questions, there is somebody to ask)."""
        raise NotImplementedError

    @property
    def nbytes(self) -> Any:
        """Bytes of the memory."""
        return self.bytes_there()

    def element_size(self) -> int:
        """Bytes per element of the base."""
        assert self.type.dtype is not None
        return self.type.dtype.itemsize

    def data_ptr(self) -> Any:
        """Address of the first byte. Raises what the base raises where it has none."""
        return self.as_tensor().data_ptr()

    def elements(self, what: str) -> Array:
        """The base's elements in the order of memory. Raises what the base raises where they are not known."""
        return self._in_memory_order(what).reshape(-1)

    @contextmanager
    def edited(self, what: str) -> Iterator[Array]:
        """A copy of them, which the base shows afterwards."""
        array = self._in_memory_order(what).copy()
        yield array.reshape(-1)
        self.overwrite(array if self.order is None else array.transpose(np.argsort(self.order)))
        self.version += 1

    def _in_memory_order(self, what: str) -> Array:
        array: Array = self.as_tensor()._data.materialize(what)
        return np.ascontiguousarray(array if self.order is None else array.transpose(self.order))

    def overwrite(self, array: Array) -> None:
        """Give the base other elements."""
        raise NotImplementedError

    def bytes_there(self) -> Dim:
        """How many bytes there are from where the memory begins to the end of the base."""
        g = self.geometry
        assert g is not None and self.type.dtype is not None
        return (g.offset + product(self.type.shape)) * self.type.dtype.itemsize

    def is_short_of(self, shown: Geometry, itemsize: int) -> bool:
        """Whether there are fewer bytes than a geometry of elements needs."""
        if any(shape_env.is_zero(n) for n in shown.dims):
            return False
        return shape_env.less(self.bytes_there(), reach(shown) * itemsize)

    def grow(self, shown: Geometry, itemsize: int) -> None:
        """Have as many bytes as a geometry of elements needs, if there are fewer."""
        if self.is_short_of(shown, itemsize):
            self.resize(reach(shown) * itemsize)

    def as_tensor(self) -> Any:
        """A tensor that shows the base."""
        raise NotImplementedError

    def resize(self, nbytes: Dim) -> None:
        """Have so many bytes (functionalizer/other_memory.py: resize_base)."""
        raise NotImplementedError

    def silent_alias(self) -> SilentStorage:
        """The same bytes under a version counter of their own (Tensor.data)."""
        return SilentStorage(self)


class SilentStorage(ElementRow):
    """What `.data` holds: writes reach the base's value, the version counter of the others stays."""

    __slots__ = ("__weakref__", "is_inference", "target", "version", "written")
    address = 0

    def __init__(self, target: Storage[Any]) -> None:
        self.target, self.version, self.is_inference = target, 0, target.is_inference
        self.written: Any = None

    @property
    def nbytes(self) -> Any:
        """Bytes of the memory."""
        return self.target.nbytes

    @property
    def memory(self) -> object:
        """That of the others."""
        return self.target.memory

    def element_size(self) -> int:
        """Bytes per element."""
        return self.target.element_size()

    def data_ptr(self) -> Any:
        """Address of the first byte."""
        return self.target.data_ptr()

    def elements(self, what: str) -> Array:
        """All elements in a row."""
        return self.target.elements(what)

    @contextmanager
    def edited(self, what: str) -> Iterator[Array]:
        """All elements in a row, to be written; the version counter of the others stays."""
        version = self.target.version
        with self.target.edited(what) as row:
            yield row
        self.target.version, self.version = version, self.version + 1

    def as_tensor(self) -> Any:
        """A tensor that shows the base."""
        return self.target.as_tensor()

    def resize(self, nbytes: Dim) -> None:
        """That of the others too."""
        self.target.resize(nbytes)

    def silent_alias(self) -> SilentStorage:
        """An alias of an alias."""
        return SilentStorage(self.target)
