"""A view of a storage: a path of view operators from its base, and how the user sees it lie in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weft.functionalizer.recorder import Recorder
from weft.functionalizer.storage import Storage
from weft.functionalizer.writes import Path, replay
from weft.ops.geometry import Geometry
from weft.ops.layout import blocks_meet
from weft.types.tensor_type import TensorType

V = TypeVar("V")


class View(Generic[V]):
    """One alias. The empty path is the base itself. What was read is remembered until the base has another value."""

    SLOTS = ("_generation", "_geometry", "_memo", "path", "permuted", "storage", "type")
    if not TYPE_CHECKING:  # the slots are those of the classes of payloads, which have another base too
        __slots__ = ()
    storage: Storage[V]
    path: Path
    type: TensorType
    _geometry: Geometry | None
    _memo: V | None
    _generation: int
    permuted: bool | None  # whether dims lie in another order than row-major; memory_format says, once

    def __init__(self, storage: Storage[V], path: Path, type: TensorType, geometry: Geometry | None = None) -> None:
        self.storage, self.path, self.type = storage, path, type
        self._geometry = geometry if path else storage.geometry
        self._memo = None
        self._generation = -1
        self.permuted = False if not path and storage.is_row_major else None

    @property
    def has_geometry(self) -> bool:
        """Whether dims and strides are known."""
        return self._geometry is not None

    def geometry(self) -> Geometry:
        """Dims and strides as the user sees them; the offset counts from where the storage begins."""
        assert self._geometry is not None
        return self._geometry

    def meets(self, other: Any) -> bool:
        """Whether this and another view are blocks of one storage with a place in common."""
        return (
            isinstance(other, View) and other.storage is self.storage and self.has_geometry and other.has_geometry
            and blocks_meet(View.geometry(self), View.geometry(other))
        )

    def read_with(self, recorder: Recorder[V]) -> V:
        """The value now."""
        storage = self.storage
        if not self.path:
            return storage.value
        if self._memo is None or self._generation != storage.generation:
            self._memo, self._generation = replay(recorder, storage.value, self.path), storage.generation
        return self._memo
