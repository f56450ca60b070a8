"""Comparing guarded values: strict about type, NaN, signed zero, and True against 1;
identity for everything that is not a plain value."""

from __future__ import annotations

import enum
import math
import struct
from typing import Any, Final

import numpy as np


class Missing:
    """The value of a name that is not there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(absent)"


MISSING: Final = Missing()
SCALARS: Final = (int, float, bool, str, bytes, type(None), complex, type(Ellipsis), type(NotImplemented), range, slice)


def key_text(key: object) -> str:
    """A key as the name of an item has it. Of an object that has a text of its own making, only its class is named."""
    is_plain = type(key) in SCALARS or (type(key) is tuple and all(type(part) in SCALARS for part in key))
    return repr(key) if is_plain or isinstance(key, (type, enum.Enum)) else f"<{type(key).__name__}>"


def number_kind(value: object) -> str | None:
    """'int' or 'float' for what can become a runtime number (Python's and NumPy's), None for all else;
    a bool is no number."""
    kind = type(value)
    if hasattr(kind, "stands_for_a_number"):  # a symbol: it says of which type
        return value.__class__.__name__
    if issubclass(kind, (bool, enum.Enum)) or has_attributes(kind):
        return None
    if issubclass(kind, (int, np.integer)):
        return "int" if -(1 << 63) <= value < 1 << 63 else None  # type: ignore[operator]
    return "float" if issubclass(kind, (float, np.floating)) else None


def is_list_of_numbers(value: Any) -> bool:
    """Whether a value is a list or tuple of numbers alone, as lengths are."""
    return type(value) in (list, tuple) and len(value) > 0 and all(map(number_kind, value))


def has_attributes(cls: type) -> bool:
    """Whether objects of the class have attributes of their own besides their value, as those of a subclass of int,
    tuple or an enum may."""
    is_written_in_python = cls.__flags__ & 1 << 9  # Py_TPFLAGS_HEAPTYPE
    if not is_written_in_python or cls.__base__ is None:
        return False
    return bool(cls.__dictoffset__ or cls.__basicsize__ != cls.__base__.__basicsize__)


def same(old: Any, new: Any, equal: tuple[type, ...] = ()) -> bool:
    """Whether a program that read `old` may go on with `new`; instances of the classes `equal` are compared with ==."""
    if old is new:
        return True
    kind = type(old)
    if kind is not type(new):
        return False
    if kind is float:
        return _same_float(old, new)
    if kind is complex:
        return _same_float(old.real, new.real) and _same_float(old.imag, new.imag)
    if hasattr(kind, "stands_for_a_number"):
        return bool(old.is_same(new))
    if kind is range or kind is slice:  # ranges of equal items may have other ends; slices hold any values
        return same((old.start, old.stop, old.step), (new.start, new.stop, new.step), equal)
    if kind in SCALARS or isinstance(old, equal):
        return bool(old == new)
    if has_attributes(kind):  # equal values may differ in these
        return False
    if isinstance(old, (int, str, bytes)):
        return bool(old == new)
    if isinstance(old, np.generic):
        return bool(old.dtype == new.dtype and old.tobytes() == new.tobytes())
    if isinstance(old, tuple):
        return len(old) == len(new) and all(same(a, b, equal) for a, b in zip(old, new, strict=True))
    if kind is frozenset:
        return same_members(old, new)
    return False


def same_members(old: frozenset[Any] | set[Any], new: frozenset[Any] | set[Any]) -> bool:
    """Equality of sets whose members are the same as well, type by type, since {1} == {True} and {0.0} == {-0.0}."""
    return len(old) == len(new) and set(map(_exact, old)) == set(map(_exact, new))


def _exact(member: Any) -> Any:
    """What is equal for members of sets that are the same."""
    kind = type(member)
    if kind is float or kind is complex:
        return kind, struct.pack("dd", member.real, member.imag)
    if kind is tuple or kind is frozenset:
        return kind, kind(map(_exact, member))
    return kind, member


def _same_float(old: float, new: float) -> bool:
    if old != old or new != new:
        return struct.pack("d", old) == struct.pack("d", new)
    return old == new and math.copysign(1.0, old) == math.copysign(1.0, new)
