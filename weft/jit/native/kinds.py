"""Which types of a program have a form in machine code: int, float, bool, tuples of them, and lists of what has one.

A list is the address of a record (lists.py): one word, whatever its elements are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from weft.catalogue.language.tuples import class_of_tuple
from weft.codegen.emit import F64, I1, I64, PTR, LType
from weft.types.tensor_type import BOOL, FLOAT, INT, ListType, TupleType, Type

_SCALARS: dict[Type, LType] = {INT: I64, FLOAT: F64, BOOL: I1}
_FORMATS: dict[Type, str] = {INT: "q", FLOAT: "d", BOOL: "q"}
_CLASSES: dict[Type, type] = {INT: int, FLOAT: float, BOOL: bool}


class Unfit(Exception):
    """The loop stays in the interpreter: something in it is no number, or has no form in machine code."""


def is_native(kind: Type) -> bool:
    """Whether a value of the type is numbers alone."""
    return kind in _SCALARS or (isinstance(kind, TupleType) and all(map(is_native, kind.elements)))


def has_form(kind: Type) -> bool:
    """Whether a value of the type is numbers, and lists of such."""
    if isinstance(kind, TupleType):
        return all(map(has_form, kind.elements))
    return kind in _SCALARS or (isinstance(kind, ListType) and has_form(kind.element))


def scalars(kind: Type) -> list[Type]:
    """The words that make up a value of the type, in order: numbers and lists."""
    return [s for e in kind.elements for s in scalars(e)] if isinstance(kind, TupleType) else [kind]


def llvm_type(scalar: Type) -> LType:
    """The type of a word in machine code."""
    return PTR if isinstance(scalar, ListType) else _SCALARS[scalar]


def struct_format(kinds: Sequence[Type]) -> str:
    """The format by which `struct` writes values of these types into words of 8 bytes."""
    return "=" + "".join(_FORMATS.get(s, "q") for kind in kinds for s in scalars(kind))


class Addresses(Protocol):
    """Which list is at which address."""

    def address(self, items: list[Any], kind: ListType) -> int:
        """Where a list is."""

    def list_at(self, address: int, kind: ListType) -> list[Any]:
        """The list that is there."""


def flat(value: Any, kind: Type, lists: Addresses) -> Iterator[Any]:
    """The words of a value. Raises TypeError for a value that is something else (a stand-in for a number, say)."""
    if isinstance(kind, TupleType):
        if not isinstance(value, tuple) or len(value) != len(kind.elements):
            raise TypeError(f"expected {kind}")
        for part, element in zip(value, kind.elements, strict=True):
            yield from flat(part, element, lists)
    elif isinstance(kind, ListType):
        yield lists.address(value, kind)
    elif type(value) is _CLASSES[kind]:
        yield value
    else:
        raise TypeError(f"expected {kind}")


def built(numbers: Iterator[Any], kind: Type, lists: Addresses) -> Any:
    """The value of a type from its words."""
    if isinstance(kind, TupleType):
        return class_of_tuple(kind)([built(numbers, element, lists) for element in kind.elements])
    if isinstance(kind, ListType):
        return lists.list_at(next(numbers), kind)
    return bool(next(numbers)) if kind is BOOL else next(numbers)
