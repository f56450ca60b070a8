"""Tuples: the types of their elements are known one by one, so an index must be a number
that is written in the program."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

from weft.catalogue.language.entries import language, type_of
from weft.types.parse import parse_type
from weft.types.tensor_type import TupleType, Type, tuple_of

NAMED: WeakValueDictionary[TupleType, Any] = WeakValueDictionary()  # the classes of named tuples, by their types


@cache
def _unknown_class(kind: TupleType) -> Any:
    """A class for named tuples of a type of which this process has no class."""
    return namedtuple(kind.name.rpartition(".")[2], kind.fields)


def class_of_tuple(kind: TupleType) -> Any:
    """What makes tuples of this type from their elements."""
    if not kind.name:
        return tuple
    named = NAMED.get(kind)
    return (_unknown_class(kind) if named is None else named)._make


def _make(elements: Any, type: str) -> Any:
    if not type:
        return tuple(elements)
    kind = parse_type(type)
    assert isinstance(kind, TupleType)
    return class_of_tuple(kind)(elements)


def _element(items: Any, index: int) -> Type | None:
    kind = type_of(items)
    return (
        kind.elements[index] if isinstance(kind, TupleType) and -len(kind.elements) <= index < len(kind.elements)
        else None
    )


def _unpacked(items: Any) -> tuple[Type, ...] | None:
    kind = type_of(items)
    return kind.elements if isinstance(kind, TupleType) else None


language("prim::TupleConstruct", 'elements, type=""', "A tuple; `type` is that of a named one.", _make,
         rule=lambda elements, type: parse_type(type) if type else tuple_of(*map(type_of, elements)),
    native=lambda s, elements, type: elements)
language(
    "prim::TupleIndex", "self, index", "An element of a tuple.", lambda self, index: self[index], rule=_element,
    native=lambda s, items, index: items[index],
)
language(
    "prim::TupleUnpack", "self", "The elements of a tuple.", tuple, rule=_unpacked, several=True,
    native=lambda s, items: items,
)
