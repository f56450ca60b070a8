"""Signatures: which types an operator on Python values takes, and which it gives: `T[], T -> None`.
Capitals are type variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from weft.types.parse import parse_type
from weft.types.tensor_type import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    ClassType,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    dict_of,
    list_of,
    optional,
    tuple_of,
)

_VARIABLE = re.compile(r"\b[TKV]\b")
WIDER: dict[Type, tuple[Type, ...]] = {
    BOOL: (INT, FLOAT, COMPLEX, NUMBER), INT: (FLOAT, COMPLEX, NUMBER), FLOAT: (COMPLEX, NUMBER)
}
Bound = dict[str, Type]


@dataclass(frozen=True)
class Signature:
    """The types of the arguments and of the result (a tuple of types where there are several results)."""

    takes: tuple[Type, ...]
    gives: Type
    text: str

    def result(self, types: Sequence[Type]) -> Type | None:
        """The type of the result for these arguments, or None where they do not fit."""
        bound: Bound = {}
        if len(types) != len(self.takes) or not all(fits(a, w, bound) for a, w in zip(types, self.takes, strict=True)):
            return None
        return substituted(self.gives, bound)


@cache
def signature(text: str) -> Signature:
    """A signature from its text. Raises ParseError."""
    takes, _, gives = text.partition("->")
    return Signature(_types(f"({takes.strip()})"), _types(f"({gives.strip()})")[0], text)


def _types(text: str) -> tuple[Type, ...]:
    parsed = parse_type(_VARIABLE.sub(r"Class(\g<0>)", text))
    assert isinstance(parsed, TupleType)
    return parsed.elements


def is_variable(kind: Type) -> bool:
    """Whether a type of a signature stands for any."""
    return isinstance(kind, ClassType) and kind.name in ("T", "K", "V")


def stands_for_any(kind: Type) -> bool:
    """Whether a type of a signature is a variable, or a list or dict of such."""
    if isinstance(kind, ListType):
        return stands_for_any(kind.element)
    if isinstance(kind, DictType):
        return stands_for_any(kind.value)
    return is_variable(kind)


def fits(actual: Type, wanted: Type, bound: Bound, exact: bool = False) -> bool:
    """Whether a value of the one type may be given for the other. `bound` gains what type variables stand for.

    A bool is an int, an int a float, as in Python; within containers the types must be the same.
    """
    if is_variable(wanted):
        assert isinstance(wanted, ClassType)
        substitute = bound.setdefault(wanted.name, actual)
        return actual.is_subtype_of(substitute) and (not exact or substitute.is_subtype_of(actual))
    if isinstance(wanted, OptionalType):
        return (
            actual is NONE
            or fits(actual.inner if isinstance(actual, OptionalType) else actual, wanted.inner, bound, exact)
        )
    if isinstance(wanted, ListType):
        return isinstance(actual, ListType) and fits(actual.element, wanted.element, bound, True)
    if isinstance(wanted, DictType):
        return (
            isinstance(actual, DictType) and fits(actual.key, wanted.key, bound, True)
            and fits(actual.value, wanted.value, bound, True)
        )
    if isinstance(wanted, TupleType):
        return isinstance(actual, TupleType) and len(actual.elements) == len(wanted.elements) and all(
            fits(a, w, bound, exact) for a, w in zip(actual.elements, wanted.elements, strict=True))
    if exact:
        return actual is wanted or (isinstance(actual, TensorType) and isinstance(wanted, TensorType))
    return actual.is_subtype_of(wanted) or wanted in WIDER.get(actual, ())


def substituted(kind: Type, bound: Bound) -> Type:
    """The type with its variables replaced by what they stand for."""
    if is_variable(kind):
        assert isinstance(kind, ClassType)
        return bound[kind.name]
    if isinstance(kind, OptionalType):
        return optional(substituted(kind.inner, bound))
    if isinstance(kind, ListType):
        return list_of(substituted(kind.element, bound))
    if isinstance(kind, DictType):
        return dict_of(substituted(kind.key, bound), substituted(kind.value, bound))
    if isinstance(kind, TupleType) and not kind.name:
        return tuple_of(*(substituted(e, bound) for e in kind.elements))
    return kind
