"""Copies of blocks whose sizes are written otherwise: in types, and in integers among the arguments."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.copies import Copy
from weft.ir.graph import Operand, Value
from weft.types.dims import Dim, Expr
from weft.types.tensor_type import TensorType, Type


class Resized(Copy):
    """Copies blocks, each symbolic size replaced by `size(it)`. `changed`: whether any became another."""

    def __init__(self, size: Callable[[Expr], Dim]) -> None:
        super().__init__()
        self._size = size
        self._types: dict[Type, Type] = {}
        self.changed = False

    def operand(self, operand: Operand) -> Operand:
        """What stands for an operand, its sizes replaced."""
        if type(operand) is Value:
            return self.values.get(operand, operand)
        if type(operand) is tuple:
            return tuple([self.operand(part) for part in operand])
        return self._dim(operand) if type(operand) is Expr else operand

    def type_of(self, value: Value) -> Type:
        """The type of a value, its sizes replaced."""
        kind = value.type
        if not isinstance(kind, TensorType) or kind.dims is None:
            return kind
        resized = self._types.get(kind)
        if resized is None:
            dims = tuple([self._dim(d) if isinstance(d, Expr) else d for d in kind.dims])
            resized = self._types[kind] = kind.with_dims(dims)
        return resized

    def _dim(self, d: Expr) -> Dim:
        size = self._size(d)
        self.changed = self.changed or size != d
        return size
