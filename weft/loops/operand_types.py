"""Arguments of a node as type rules see them."""

from __future__ import annotations

from typing import Any

from weft.ir.graph import Operand, Value
from weft.passes.alias import dtype_of
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType


def type_of_operand(operand: Operand) -> Any:
    """The type of an argument; of a literal itself."""
    if type(operand) is Value:
        return operand.type if isinstance(operand.type, TensorType) else _NumberType(operand)
    return operand


class _NumberType:
    """A number that is a graph value, as a type rule sees it."""

    __weft_number__ = True

    def __init__(self, value: Value) -> None:
        self.__weft_number_type__ = {dt.float64: float, dt.int64: int, dt.bool_: bool}.get(dtype_of(value), float)  # type: ignore[arg-type]
