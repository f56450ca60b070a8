"""From a tensor to Python's numbers, lists and truth, and to NumPy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.overrides import plain_kinds
from weft.support.errors import ArgumentError, StateError, ValueProblem
from weft.tensor.capture import ROW
from weft.tensor.dense import payload_of
from weft.tensor.facts import Facts
from weft.tensor.modes import modes
from weft.types import dtype as dt

if TYPE_CHECKING:
    from weft.tensor.tensor import Tensor

class Conversions(Facts):
    """The part of Tensor that reads its value."""

    __slots__ = ()

    def __len__(self) -> int:
        if self.ndim == 0:
            raise ArgumentError("len() of a 0-d tensor")
        size = self.shape[0]
        if modes.capture is not None and type(size) is not int:
            modes.capture.python_state.note_length(sys._getframe(1))
        return int(size)

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise ArgumentError("iteration over a 0-d tensor")
        size = self.shape[0]
        if modes.capture is not None and type(size) is not int and type(self) in plain_kinds:
            frame = sys._getframe(1)
            rows = modes.capture.repeats.over(size, frame, ROW, self.__getitem__)
            if rows is not None:
                return rows
            modes.capture.python_state.note_rows(size, frame)
        return iter(self.unbind(0))

    def __reversed__(self) -> Tensor:
        """The rows from the last to the first, as a tensor."""
        return self.flip(0) if self.ndim else self  # type: ignore[return-value]

    def __bool__(self) -> bool:
        if self.ndim and self.numel() != 1:
            raise StateError(
                "Boolean value of Tensor with no values is ambiguous" if self.numel() == 0
                else "Boolean value of Tensor with more than one value is ambiguous"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self._real())

    def __float__(self) -> float:
        return float(self._real())

    def __complex__(self) -> complex:
        return complex(self._only())

    def _real(self) -> Any:
        """The only element, if it is no complex number. Raises StateError."""
        value = self._only()
        if type(value) is complex:
            raise StateError(
                f"value {value} of a complex tensor cannot be converted to a real number; take .real first"
            )
        return value

    def _only(self) -> Any:
        """The only element. Raises ValueProblem for any other number of elements."""
        if payload_of(self).has_bytes and self.numel() != 1:
            raise ValueProblem("only one element tensors can be converted to Python scalars")
        return self.item()

    def __index__(self) -> int:
        if self.numel() != 1 or self.dtype.category > dt.INT:
            raise ArgumentError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, value: Any) -> bool:
        if not hasattr(type(value), "__weft_route__") and not isinstance(value, (int, float, complex, np.generic)):
            raise StateError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(value)}.")
        return bool((self == value).any().item())

    def item(self) -> int | float | bool:
        """The only element as a Python number. Raises StateError for any other number of elements."""
        payload = payload_of(self)
        if modes.capture is not None and payload.has_bytes:
            modes.capture.outside.refuse_value(self, "its value (.item(), int(), float(), bool() or `if tensor`)")  # type: ignore[arg-type]
        return payload.item()  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Nested lists of Python numbers (a number for a 0-dim tensor)."""
        data = self._array("tolist()")
        return (data.astype(np.float32) if data.dtype.kind == "V" else data).tolist()

    def _array(self, what: str) -> np.ndarray[Any, Any]:
        payload = payload_of(self)
        if modes.capture is not None and payload.has_bytes:
            modes.capture.outside.refuse_value(self, what)  # type: ignore[arg-type]
        array: np.ndarray[Any, Any] = payload.materialize(what)
        return array
