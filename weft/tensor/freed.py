"""Tensors that show more than their storage has, since that was made smaller: sizes and strides, and no bytes until the
storage has them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from weft.ops.geometry import Geometry
from weft.support.errors import StateError
from weft.tensor.payload import Payload
from weft.types.tensor_type import TensorType


class FreedPayload(Payload):
    """What a tensor over a storage shows without bytes; strides and offset in elements."""

    __slots__ = ("_geometry", "storage", "type")

    def __init__(self, type: TensorType, geometry: Geometry, storage: Any) -> None:
        self.type, self._geometry, self.storage = type, geometry, storage

    def geometry(self) -> Geometry:
        """Dims, strides and offset as they were."""
        return self._geometry

    def new_storage(self) -> Any:
        """The storage that has too few bytes."""
        return self.storage

    def data_ptr(self, owner: Any) -> int:
        """0: there is no first element."""
        return 0

    def item(self) -> NoReturn:
        """Refused: there are no bytes."""
        self.materialize("item()")

    def materialize(self, what: str) -> NoReturn:
        """Refused, idem."""
        raise self.refusal(what)

    def refusal(self, what: str) -> StateError:
        """The error for asking for the bytes."""
        return no_bytes(what, self.shape, self.storage.nbytes)


def no_bytes(what: str, dims: Sequence[Any], nbytes: Any) -> StateError:
    """The error for asking for the bytes of a tensor of these sizes where the storage has so few."""
    return StateError(
        f"{what}: the storage of a tensor of sizes {list(dims)} was resized to {nbytes} bytes "
        "and has too few for it (unallocated storage); resize it back with untyped_storage().resize_(), and write "
        "the tensor before it is read"
    )
