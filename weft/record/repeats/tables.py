"""Numbers that are computed of a loop's index, as tensors with one element for each iteration. Lifted numbers may be
among their operands: the program computes such a table, operation by operation, as Python would each number."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft.ir.builder import memo_key
from weft.ops.packet import aten
from weft.record.numbers.sym_float import SymFloat, Values
from weft.record.repeats.iteration import EXACT
from weft.record.repeats.values import Number
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dims import Expr, evaluate
from weft.types.sym import SymInt, to_dim

_MOST = 1024  # iterations of which numbers of the index are computed
_ERRORS = (ArithmeticError, ValueError, TypeError)


def _divided(a: Any, b: Any) -> Any:
    """The quotient of two numbers, or of tables. (What tensors make of a number that they divide is rounded twice.)"""
    if type(b) is Tensor and type(a) is not Tensor:
        return aten.div(aten.mul(aten.ones((), dtype=dt.float64), a), b)
    return operator.truediv(a, b)


_OPERATORS = {f: f for f in (operator.add, operator.sub, operator.mul, operator.neg)}
_OPERATORS.update({operator.truediv: _divided, _divided: _divided})


def function_of_lifted(function: Any) -> Callable[..., Any] | None:
    """What computes a function of Python's of lifted numbers and of tables too, to the last bit; None for others. (A
    table of math.exp may differ from its numbers in the last bit.)"""
    return _OPERATORS.get(function)


class Table:
    """A number of the index in as many iterations as `length`. column: its values; or a function, with its operands:
    other columns, and numbers that stay the same."""

    def __init__(self, column: Any, length: int) -> None:
        self.column, self.length = column, length

    @property
    def is_lifted(self) -> bool:
        """Whether lifted numbers are among its operands."""
        return type(self.column) is tuple

    def tensor(self, constant: Callable[[Sequence[float]], Any]) -> Any:
        """A tensor of float64. constant: makes one of values."""
        return _computed(self.column, lambda values: constant(values[: self.length]), lambda number: number)

    def is_finite(self) -> Callable[[Values, int], bool]:
        """What says whether it is finite in so many iterations of a call with these lifted numbers, and whatever it is
        computed of: where it is not, Python may raise."""
        column = _computed(self.column, list, _compute_of, lambda function, *operands: (function, *operands))

        def holds(values: Values, count: int) -> bool:
            results: list[Any] = []

            def apply(function: Any, *operands: Any) -> Any:
                results.append(function(*operands))
                return results[-1]

            with np.errstate(all="ignore"):
                _computed(
                    column, lambda column: np.array(column[:count], np.float64),
                    lambda number: number(values) if callable(number) else number, apply,
                )
                return all(bool(np.isfinite(each).all()) for each in results)

        return holds


def _compute_of(number: Any) -> Any:
    """What computes a lifted number; others as they are. (Behind its capture it is that of the call.)"""
    if type(number) is SymInt:
        return partial(evaluate, number.expr)
    return number.compute if type(number) is SymFloat else number


def _applied(function: Callable[..., Any], *operands: Any) -> Any:
    return function(*operands)


def _computed(
    column: Any, constant: Callable[[Any], Any], number: Callable[[Any], Any], apply: Callable[..., Any] = _applied
) -> Any:
    """What a column is, with other things in the place of lists and numbers. apply: calls a function."""
    if type(column) is not tuple:
        return constant(column) if type(column) is list else number(column)
    function, *operands = column
    return apply(function, *[_computed(each, constant, number, apply) for each in operands])


def table_of(number: Number, first: Any, values: Sequence[Any]) -> Table:
    """What a number of the index is from one index on, as far as it may be an operand in the place of those that
    iterations have had; one of no length if it is not these. first: a size where the index is counted down."""
    length, is_down = max(_MOST, 2 * len(values)), type(first) is SymInt
    if type(values[0]) in (SymFloat, Expr):
        step = -1 if is_down else 1
        try:  # (the same computation of the same numbers is the same value of the graph)
            if all(_is_same_number(number.at(first + i * step), value) for i, value in enumerate(values)):
                return Table(_down(number, first, length), length) if is_down else _lifted(number, first, length)
        except _ERRORS:
            pass
        return Table([], 0)
    if is_down:
        return Table([], 0)
    indices = range(first, first + length)
    column = _values(number, indices, type(values[0]))
    is_same = [memo_key(value) for value in column[: len(values)]] == [memo_key(value) for value in values]
    return Table(column, len(column) if is_same else 0)


def _is_same_number(a: Any, b: Any) -> bool:
    return a.value is b.value if type(a) is SymFloat is type(b) else type(a) is SymInt and bool(to_dim(a) == b)


def _down(number: Number, first: SymInt, length: int) -> Any:
    """The column of a number whose index is counted down. Raises ValueError where tensors do not compute it."""
    if number.function is None:
        return operator.sub, first, list(range(length))
    function = function_of_lifted(number.function)
    if function is None:
        raise ValueError
    return function, *[_down(each, first, length) if type(each) is Number else each for each in number.args]


def _lifted(number: Number, first: int, most: int) -> Table:
    if not number.is_lifted:
        column = _values(number, range(first, first + most), None)
        return Table(column, len(column))
    tables = [_lifted(each, first, most) if type(each) is Number else each for each in number.args]
    length = min([each.length for each in tables if type(each) is Table], default=most)
    columns = [each.column if type(each) is Table else each for each in tables]
    return Table((number.function, *columns), length)


def _values(number: Number, indices: range, kind: type | None) -> list[float]:
    """Its values, up to one that is of another type, or not exact as a float."""
    column: list[float] = []
    for index in indices:
        try:
            value = number.at(index)
        except _ERRORS:
            break
        if type(value) not in ((int, float) if kind is None else (kind,)):
            break
        if type(value) is int and abs(value) > EXACT:
            break
        column.append(value)
    return column
