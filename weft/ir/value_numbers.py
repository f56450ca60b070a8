"""Value numbers: what is computed in the same way of the same has one number, in every graph that one table numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import count
from typing import Any
from weakref import ref

from weft.ir.builder import memo_key
from weft.ir.graph import Node, Operand, Value
from weft.support import limits
from weft.support.memo import Memo
from weft.types.dims import Expr


class ValueNumbers:
    """A table of value numbers. Numbers are never given twice: where the table starts anew, since it is full, equal
    values have different numbers, and different ones never the same."""

    def __init__(self) -> None:
        self._numbers: Memo[Hashable, int] = Memo(limits.VALUE_NUMBERS)
        self._objects: Memo[int, tuple[ref[Any], int]] = Memo(limits.VALUE_NUMBERS)
        self._unused = count()

    def fresh(self) -> int:
        """A number for what is like nothing else."""
        return next(self._unused)

    def of_key(self, key: Hashable) -> int:
        """The number of what a key says."""
        number = self._numbers.get(key)
        return self._numbers.setdefault(key, self.fresh()) if number is None else number

    def of_object(self, thing: Any) -> int:
        """The number of an object, as long as it lives."""
        entry = self._objects.get(id(thing))
        if entry is None or entry[0]() is not thing:
            entry = self._objects[id(thing)] = ref(thing), self.fresh()
        return entry[1]

    def number(self, node: Node, numbers: dict[Value, int], symbols: dict[str, int]) -> None:
        """Number the results of a node. numbers: of the values that it reads; symbols: of those in its sizes, where one
        that is not there is like nothing else."""
        if node.blocks:
            numbers.update((v, self.fresh()) for v in node.outputs)
            return

        def symbols_of(expr: Expr) -> Hashable:
            return tuple([symbols.setdefault(name, self.fresh()) for name in sorted(expr.symbols())])

        call = self.of_key((node.op, operand_key(node.args, numbers, symbols_of)))
        for i, value in enumerate(node.outputs):
            numbers[value] = call if len(node.outputs) == 1 else self.of_key((Node, call, i))


def operand_key(
    operand: Operand, numbers: Mapping[Value, int], symbols_of: Callable[[Expr], Hashable] | None = None
) -> Hashable:
    """An operand with numbers in the place of values: equal for equal operands alone. symbols_of: what the symbols of a
    size are; None where equal names say it."""
    kind = type(operand)
    if kind is tuple:
        return tuple([operand_key(part, numbers, symbols_of) for part in operand])
    if kind is Value:
        return (Value, numbers[operand])
    if kind is Expr and symbols_of is not None:
        return (operand, symbols_of(operand))
    key: Hashable = memo_key(operand)
    return key
