"""Payload: what a tensor holds when it is not an ndarray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.ops.geometry import Geometry
from weft.support.errors import StateError
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.tensor.tensor import Tensor


class Payload:
    """The value of a symbolic or abstract tensor derives from this.

    `type` is its TensorType, `geometry()` its dims and strides.
    """

    __slots__ = ()
    type: TensorType
    is_spent: Any = False  # whether what could say the value is over (a capture): nothing is to be had from then on
    differs = False  # whether there is a value, and it is not one (an example's inside vmap)

    def geometry(self) -> Geometry:
        raise StateError(f"{self.__class__.__name__} has no strides")

    def offset(self) -> Any:
        """The place of the first element in the storage."""
        return self.geometry().offset

    def materialize(self, what: str) -> Any:
        """The bytes that `what` asks for, or an error that says why there are none."""
        raise StateError(f"{what}: {self.__class__.__name__} has no bytes")

    def new_storage(self) -> Any:
        """What the aliases of a tensor with this payload share."""
        return self.materialize("storage()")

    def copied(self) -> Any:
        """The payload of an independent copy."""
        return self.materialize("deepcopy")

    def dressed(self, out: Tensor) -> Tensor:
        """A tensor that machinery made around this payload, as users know it."""
        return out

    def adopt(self, owner: Tensor) -> None:
        """Learn which tensor holds the payload."""

    def moved_to(self, owner: Tensor) -> Any:
        """The payload for a tensor that shows from now on what another one shows (`x.data = y`, transpose_)."""
        return self

    def reduced(self, owner: Tensor) -> Any:
        """What pickle keeps of the tensor."""
        return self.materialize("pickle")

    def detached(self) -> Payload:
        """The payload of an alias without history."""
        return self

    def kept(self, owner: Tensor) -> Payload:
        """The payload that is saved of a view, without what it is a view of."""
        return self

    def text(self) -> str:
        """The repr of a tensor with this payload; "" where type and device say it all."""
        return ""
