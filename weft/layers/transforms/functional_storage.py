"""What aliases share inside functionalize: a base that is a tensor of the level below, maybe one that came in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from weft.autograd.record import gradient_edge
from weft.functionalizer.other_memory import from_row, resize_base
from weft.functionalizer.recorder import Calls
from weft.functionalizer.storage import Order, Storage
from weft.functionalizer.writes import write_path
from weft.ops.geometry import Geometry, contiguous
from weft.runtime.moving import NOT_RESIZABLE
from weft.runtime.storage import Array
from weft.support.errors import StateError
from weft.tensor.dense import has_memory
from weft.tensor.modes import modes, set_grad_enabled
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.dims import Dim

if TYPE_CHECKING:
    from weft.layers.transforms.functional import Functional, FunctionalLevel


class FunctionalStorage(Storage[Tensor]):
    """A storage whose base is a tensor of the level below. outside: the tensor that it was when it came in,
    None for what was made inside. given: the value that it had then, where it is another tensor than `outside`."""

    __slots__ = ("given", "level", "outside", "views")

    def __init__(
        self, level: FunctionalLevel, value: Tensor, geometry: Geometry | None, order: Order | None,
        outside: Tensor | None = None,
    ) -> None:
        super().__init__(value, value.type_, geometry, order)
        self.level, self.outside = level, outside
        self.given = value
        self.views: WeakSet[Functional] = WeakSet()  # of what came in, which may turn out to be a part of its memory

    @property
    def nbytes(self) -> Any:
        """Bytes of the memory: that of what came in, as long as it is looked at in part."""
        outside = self.outside
        return self.bytes_there() if outside is None or self.is_row_major else outside.storage().nbytes

    def as_tensor(self) -> Tensor:
        """A tensor that shows the base."""
        return self.level.shown(self)

    def elements(self, what: str) -> Array:
        """All elements in a row: also those of what came in that nobody has looked at."""
        self._look_at_all_if_outside()
        return super().elements(what)

    @contextmanager
    def edited(self, what: str) -> Iterator[Array]:
        """A copy of them, which the base shows afterwards."""
        self._look_at_all_if_outside()
        with super().edited(what) as row:
            yield row

    def overwrite(self, array: Array) -> None:
        """Give the base other elements."""
        self.write(tensor_around(np.array(array, order="C")))

    def _look_at_all_if_outside(self) -> None:
        if self.outside is not None:
            self.level.beneath(self.look_at_all)

    def _move(self, whole: Tensor, place: Geometry) -> None:
        """Let the base be a larger memory, in which what it was until now has a place."""
        self.value = self.outside = whole
        self.type, self.geometry, self.order = whole.type_, contiguous(whole.dims), None
        self.generation += 1
        for view in self.views:
            view.path = from_row(view.path, place)

    def look_at_all(self) -> None:
        """Make the base all of the memory: as_strided looks at elements that the tensor which came in does not show."""
        outside = self.outside
        assert outside is not None
        row = whole_memory(outside)
        if row is None or row.dims == outside.dims:
            return
        place = replace(outside.geometry(), offset=outside.geometry().offset)
        value, is_written = self.value, self.value is not self.given
        self._move(row, place)
        if is_written or value.requires_grad:
            self.value = write_path(Calls(), row, from_row((), place), value)
        self.given = row if is_written else self.value

    def copied(self) -> FunctionalStorage:
        """One of its own with the same elements."""
        if self.outside is not None:
            self.look_at_all()
        return FunctionalStorage(self.level, self.value.detach().clone(), self.geometry, self.order)

    def grow(self, shown: Geometry, itemsize: int) -> None:
        """Have as many bytes as a geometry needs: what came in may be a part of a memory that has them."""
        if self.outside is not None and self.is_short_of(shown, itemsize):
            self.level.beneath(self.look_at_all)
        super().grow(shown, itemsize)

    def resize(self, nbytes: Dim) -> None:
        """Have so many bytes; so has what came in, once the function has ended. Raises StateError where it cannot."""
        if self.outside is not None:
            self.level.beneath(self.look_at_all)
            if whole_memory(self.outside) is None or not self.outside.storage().is_resizable:
                raise StateError(f"{NOT_RESIZABLE}: it is that of an argument. clone() the tensor first")
        self.level.beneath(resize_base, self, self.level.recorder, nbytes)

    def put_back(self) -> None:
        """Write what came in and was written inside. Writes without history, and only those, leave a leaf one."""
        outside, value = self.outside, self.value
        if outside is None or value is self.given:
            return
        if value.dims != outside.dims:
            outside = self.outside = _resized(outside, value)
        is_known = self.given.requires_grad and gradient_edge(self.given) == gradient_edge(value)
        with set_grad_enabled(modes.grad and not is_known):
            outside.copy_(value)


def _resized(outside: Tensor, value: Tensor) -> Tensor:
    """All of the memory of what came in, which gets as many bytes as its value has now."""
    outside.storage().resize(value.numel() * value.element_size())
    row = whole_memory(outside)
    assert row is not None
    return row


def whole_memory(tensor: Tensor) -> Tensor | None:
    """All of a tensor's memory as one row of its dtype; None where there are no bytes to show."""
    if not has_memory(tensor):
        return None
    storage = tensor.storage()
    out = tensor_around(storage.row(tensor.dtype.numpy))
    out._storage = storage
    if modes.capture is not None:
        modes.capture.outside.note_alias(out, tensor)
    return out
