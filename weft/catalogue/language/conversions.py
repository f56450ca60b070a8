"""From one kind of value to another, as Python's types do it. A tensor with one element is a number
where one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.catalogue.language.entries import ORDERED, language, type_of
from weft.catalogue.language.numbers import whole
from weft.types.tensor_type import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    STR,
    DictType,
    ListType,
    TupleType,
    Type,
    list_of,
    unify,
)

language(
    "prim::int", "a", "An integer: floats are cut off, texts are read. Raises ValueError.", whole(int),
    "int -> int", "float -> int", "Number -> int", "str -> int", "Tensor -> int", effect="raises",
    native=lambda s, a: s.to_int(a),
)
language(
    "prim::int_of_base", "text, base", "The integer that a text is in a base. Raises ValueError.",
    whole(int), "str, int -> int", effect="raises",
)
language(
    "prim::float", "a", "A float. Raises ValueError for a text that is none.", float, "float -> float",
    "Number -> float", "str -> float", "Tensor -> float", effect="raises",
    native=lambda s, a: s.to_float(a),
)
language(
    "prim::complex", "real, imag=0", "A complex number.", complex, "complex, complex -> complex",
    "Tensor, Number -> complex", "Number, Tensor -> complex", "Tensor, Tensor -> complex", effect="raises",
)


def _has_truth(a: Any) -> Type | None:
    kind = type_of(a)
    return (
        BOOL if kind in (INT, FLOAT, BOOL, COMPLEX, NUMBER, STR) or isinstance(kind, (ListType, DictType, TupleType))
        else None
    )


language(
    "prim::bool", "a", "Whether a value counts as true. Raises for a tensor with several elements.", bool,
    "Tensor -> bool", rule=_has_truth, effect=ORDERED, observes="raises",
    native=lambda s, a: s.to_bool(a),
)
language("prim::str", "a", "A value as text.", str, "Any -> str", effect=ORDERED, observes="pure")
language(
    "prim::ord", "text", "The number of a character. Raises TypeError for a text of another length.", ord, "str -> int",
    effect="raises",
)
language("prim::chr", "number", "The character with a number. Raises ValueError.", chr, "int -> str", effect="raises")
language("prim::hex", "number", "An integer as text of base 16.", hex, "int -> str")
language("prim::oct", "number", "An integer as text of base 8.", oct, "int -> str")
language("prim::bin", "number", "An integer as text of base 2.", bin, "int -> str")


def _format_value(value: Any, spec: str, conversion: str) -> str:
    return format(_CONVERSIONS[conversion](value), spec)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"r": repr, "s": str, "a": ascii, "": lambda value: value}


language(
    "prim::format_value", 'value, spec="", conversion=""', "A value within an f-string, by its specification.",
    _format_value, "Any, str, str -> str", effect=ORDERED, observes="raises",
)
language("prim::hash", "a", "Python's hash.", hash, "int -> int", "float -> int", "str -> int", "Any -> int")
language(
    "prim::list", "a", "A new list of the elements.", list, "T[] -> T[]", "str -> str[]", "Dict(K, V) -> K[]",
    rule=lambda a: _elements(type_of(a)), effect=ORDERED, observes="pure",
)


def _elements(kind: Type) -> Type | None:
    if not isinstance(kind, TupleType) or not kind.elements:
        return None
    joined = kind.elements[0]
    for element in kind.elements[1:]:
        joined = unify(joined, element)
    return None if joined is ANY else list_of(joined)
