"""Which types of a program have a form in machine code: int, float, bool, and tuples of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.catalogue.language.tuples import class_of_tuple
from weft.codegen.emit import F64, I1, I64, LType
from weft.types.tensor_type import BOOL, FLOAT, INT, TupleType, Type

_SCALARS: dict[Type, LType] = {INT: I64, FLOAT: F64, BOOL: I1}
_FORMATS: dict[Type, str] = {INT: "q", FLOAT: "d", BOOL: "q"}
_CLASSES: dict[Type, type] = {INT: int, FLOAT: float, BOOL: bool}


class Unfit(Exception):
    """The loop stays in the interpreter: something in it is no number, or has no form in machine code."""


def is_native(kind: Type) -> bool:
    """Whether a value of the type is numbers alone."""
    return kind in _SCALARS or (isinstance(kind, TupleType) and all(map(is_native, kind.elements)))


def scalars(kind: Type) -> list[Type]:
    """The numbers that make up a value of the type, in order."""
    return [s for e in kind.elements for s in scalars(e)] if isinstance(kind, TupleType) else [kind]


def llvm_type(scalar: Type) -> LType:
    """The type of a number in machine code."""
    return _SCALARS[scalar]


def struct_format(kinds: Sequence[Type]) -> str:
    """The format by which `struct` writes values of these types into words of 8 bytes."""
    return "=" + "".join(_FORMATS[s] for kind in kinds for s in scalars(kind))


def flat(value: Any, kind: Type) -> Iterator[Any]:
    """The numbers of a value. Raises TypeError for a value that is something else (a stand-in for a number, say)."""
    if isinstance(kind, TupleType):
        if not isinstance(value, tuple) or len(value) != len(kind.elements):
            raise TypeError(f"expected {kind}")
        for part, element in zip(value, kind.elements, strict=True):
            yield from flat(part, element)
    elif type(value) is _CLASSES[kind]:
        yield value
    else:
        raise TypeError(f"expected {kind}")


def built(numbers: Iterator[Any], kind: Type) -> Any:
    """The value of a type from its numbers."""
    if isinstance(kind, TupleType):
        return class_of_tuple(kind)([built(numbers, element) for element in kind.elements])
    return bool(next(numbers)) if kind is BOOL else next(numbers)
