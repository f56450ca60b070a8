"""What the functionalizer needs of whoever computes: operators on values."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from weft.ops.op import Op
from weft.ops.route import call
from weft.types.tensor_type import TensorType

V = TypeVar("V")


class Recorder(Protocol[V]):
    """Computes operators on values, at once or later. What it is given is functional: views of values, and operators
    that make new ones.
    """

    def emit(self, op: Op, args: tuple[Any, ...]) -> tuple[V, ...]:
        """The results of an operator; a value of it is a whole memory to itself, whose elements lie row-major."""
        ...

    def type_of(self, value: V) -> TensorType:
        """The type of a value."""
        ...


class Calls:
    """A recorder for values that operators take themselves: tensors, and handles of graph values."""

    def emit(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call the operator."""
        out = call(op, args)
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    def type_of(self, value: Any) -> TensorType:
        """The type of a tensor."""
        kind: TensorType = value.type_
        return kind
