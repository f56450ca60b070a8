"""What instructions of a loop's body are followed with, in the place of Python's values (steady.py)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from weft.record.numbers.sym_float import SymFloat
from weft.record.repeats.objects import is_tensor
from weft.tensor.capture import Index
from weft.types.sym import SymInt


class Data:
    """A tensor, a plain value, or tuples and lists of them."""


class List:
    """A list that the body has made, or whose items it assigns. name: the local name that it had before."""

    def __init__(self, parts: Iterable[Any], name: str | None = None) -> None:
        self.parts, self.name = list(parts), name


class Items:
    """An iterator over what stays the same, and data."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self.parts = iter(parts)


class Null:
    """A marker of CPython's own: what stands beside a callable."""


class Number(NamedTuple):
    """A number that is computed of the index: what a function gives for numbers, and for others of this kind; without a
    function the index itself."""

    function: Callable[..., Any] | None
    args: tuple[Any, ...]

    def at(self, index: Any) -> Any:
        """What it is for an index, which may be a size."""
        if self.function is None:
            return index
        return self.function(*[each.at(index) if type(each) is Number else each for each in self.args])

    @property
    def is_moved(self) -> bool:
        """Whether it differs from the index by an integer that stays the same."""
        if self.function is None:
            return True
        first, *others = self.args
        is_sum = self.function in (operator.add, operator.sub) and [type(v) for v in others] == [int]
        return is_sum and type(first) is Number and first.is_moved

    @property
    def has_size(self) -> bool:
        """Whether it is computed of a size too."""
        return any(v.has_size if type(v) is Number else type(v) is SymInt for v in self.args)

    @property
    def is_lifted(self) -> bool:
        """Whether it is computed of lifted numbers too."""
        return any(v.is_lifted if type(v) is Number else type(v) is SymFloat for v in self.args)

    @property
    def is_place(self) -> bool:
        """Whether it is the index, or its negative, and an integer or a size that stays the same."""
        if self.function is None:
            return True
        if self.function not in (operator.add, operator.sub) or len(self.args) != 2:
            return False
        return all(v.is_place if type(v) is Number else type(v) in (int, SymInt) for v in self.args)


class Collected(NamedTuple):
    """A list that results of iterations are appended to."""

    name: str


class Known(NamedTuple):
    """An object that is the same one in every iteration."""

    value: Any


class Method(NamedTuple):
    """A method of data, by its name."""

    name: str


class Item(NamedTuple):
    """A tuple, or a list that the body leaves as it is: the index and rows, as an iterator gives them."""

    parts: tuple[Any, ...]


DATA, INDEX, NULL = Data(), Number(None, ()), Null()
EXIT = Null()  # what leaves the block of a `with` statement
RESULT = Data()  # data that is not None


def is_numeric(value: Any) -> bool:
    """Whether it stands for a number: one that is computed of the index, or an int, a float, a size or a lifted number
    that stays the same."""
    return type(value) is Number or (type(value) is Known and type(value.value) in (int, float, SymInt, SymFloat))


def of_state(value: Any) -> Any:
    """What a name stands for that holds equal things whenever an iteration begins."""
    if type(value) in (tuple, list):
        return Item(tuple(map(of_state, value)))
    return RESULT if is_tensor(value) else DATA


def of_item(item: Any) -> Any:
    """What an iterator gives (tensor/capture.py)."""
    return Item(tuple(map(of_item, item))) if type(item) is tuple else INDEX if type(item) is Index else RESULT


def has_index(item: Item) -> bool:
    """Whether numbers of the index are among its parts."""
    return any(type(part) is Number or (type(part) is Item and has_index(part)) for part in item.parts)
