"""Python's objects outside of a program: constants, and where functions of weft's are found again."""

from __future__ import annotations

import sys
from typing import Any

from weft.jit.frontend.values import Simple, constant
from weft.tensor.device import Device
from weft.types import tensor_type as tt
from weft.types.dtype import DType
from weft.types.tensor_type import Type


def python_constant(value: Any) -> Simple | None:
    """A number, text, dtype, device or None as an immediate; None for any other object."""
    if value is None or type(value) in (bool, int, float, complex, str):
        kinds: dict[type, Type] = {bool: tt.BOOL, int: tt.INT, float: tt.FLOAT, complex: tt.COMPLEX, str: tt.STR}
        return constant(value, kinds.get(type(value), tt.NONE))
    if isinstance(value, DType):
        return constant(value, tt.DTYPE)
    if isinstance(value, Device):
        return constant(str.__str__(value), tt.STR)
    return None


_ROOTS = ("weft", "weft.nn.functional", "weft.linalg", "weft.special", "weft.fft", "weft.autograd", "weft.nn.init")


def path_of(function: Any) -> str | None:
    """Where a function of weft's is found again: `weft.nn.functional.pad`; None for the user's functions."""
    name = getattr(function, "__name__", None)
    if name is None or not callable(function) or isinstance(function, type):
        return None
    for root in _ROOTS:
        module = sys.modules.get(root)
        if module is not None and module.__dict__.get(name) is function:
            return f"{root}.{name}"
    return None
