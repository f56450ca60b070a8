"""What instructions of a loop's body are followed with, in the place of Python's values (steady.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from weft.record.repeats.objects import is_tensor
from weft.tensor import capture


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
    """CPython's own marker beside a callable."""


class Index(NamedTuple):
    """The number of the iteration, or one that differs from it by a constant."""


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


DATA, INDEX, NULL = Data(), Index(), Null()
RESULT = Data()  # data that is not None


def of_state(value: Any) -> Any:
    """What a name stands for that holds equal things whenever an iteration begins."""
    if type(value) in (tuple, list):
        return Item(tuple(map(of_state, value)))
    return RESULT if is_tensor(value) else DATA


def of_item(item: Any) -> Any:
    """What an iterator gives (tensor/capture.py)."""
    return Item(tuple(map(of_item, item))) if type(item) is tuple else INDEX if item == capture.INDEX else RESULT


def has_index(item: Item) -> bool:
    """Whether the index is among its parts."""
    return any(part is INDEX or (type(part) is Item and has_index(part)) for part in item.parts)
