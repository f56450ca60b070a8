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

    def result(self, given: Sequence[Type]) -> Type | None:
        """The type of the result for these arguments, or None where they do not fit."""
        bound: Bound = {}
        if len(given) != len(self.takes) or not all(fits(g, t, bound) for g, t in zip(given, self.takes, strict=True)):
            return None
        return substituted(self.gives, bound)


@cache
def signature(text: str) -> Signature:
    """A signature from its text. Raises ParseError."""
    takes, _, gives = text.partition("->")
    return Signature(_types(f"({takes.strip()})"), _types(f"({gives.strip()})")[0], text)


def _types(text: str) -> tuple[Type, ...]:
    found = parse_type(_VARIABLE.sub(r"Class(\g<0>)", text))
    assert isinstance(found, TupleType)
    return found.elements


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


def fits(given: Type, wanted: Type, bound: Bound, exact: bool = False) -> bool:
    """Whether a value of the one type may be given for the other. `bound` gains what type variables stand for.

    A bool is an int, an int a float, as in Python; within containers the types must be the same.
    """
    if is_variable(wanted):
        assert isinstance(wanted, ClassType)
        known = bound.setdefault(wanted.name, given)
        return given.is_subtype_of(known) and (not exact or known.is_subtype_of(given))
    if isinstance(wanted, OptionalType):
        return (
            given is NONE or fits(given.inner if isinstance(given, OptionalType) else given, wanted.inner, bound, exact)
        )
    if isinstance(wanted, ListType):
        return isinstance(given, ListType) and fits(given.element, wanted.element, bound, True)
    if isinstance(wanted, DictType):
        return (
            isinstance(given, DictType) and fits(given.key, wanted.key, bound, True)
            and fits(given.value, wanted.value, bound, True)
        )
    if isinstance(wanted, TupleType):
        return isinstance(given, TupleType) and len(given.elements) == len(wanted.elements) and all(
            fits(g, w, bound, exact) for g, w in zip(given.elements, wanted.elements, strict=True))
    if exact:
        return given is wanted or (isinstance(given, TensorType) and isinstance(wanted, TensorType))
    return given.is_subtype_of(wanted) or wanted in WIDER.get(given, ())


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
