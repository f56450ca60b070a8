"""sym_int, sym_max and their like: functions of numbers that may be symbols, under PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def is_float_number(a: Any) -> bool:
    """Whether a number, or what stands for one, is a float."""
    return isinstance(a, float) or getattr(a, "__weft_number_type__", int) is float


def sym_int(a: Any) -> Any:
    """A number as an integer, rounded towards zero."""
    if is_float_number(a):
        return math.floor(a) if a >= 0 else math.ceil(a)
    return a


def sym_float(a: Any) -> Any:
    """A number as a float."""
    return a if is_float_number(a) else a * 1.0


def sym_max(a: Any, b: Any) -> Any:
    """The greater of two numbers; a float where one of them is. Between symbols it asks which one that is."""
    return _joint(b if b > a else a, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers; a float where one of them is. Between symbols it asks which one that is."""
    return _joint(b if b < a else a, a, b)


def _joint(value: Any, a: Any, b: Any) -> Any:
    return sym_float(value) if is_float_number(a) or is_float_number(b) else value


def sym_not(a: Any) -> bool:
    """The other answer."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t where b holds, else f."""
    return t if b else f


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, given one by one or as a sequence."""
    numbers: Sequence[Any] = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return sum(numbers)


def sym_sqrt(a: Any) -> Any:
    """The square root, a float."""
    return a**0.5 if hasattr(type(a), "__weft_number__") else math.sqrt(a)
