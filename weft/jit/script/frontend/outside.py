"""Python's objects outside of a program: constants, and where functions of weft's are found again."""

from __future__ import annotations

import sys
from typing import Any

from weft.jit.errors import CompileError
from weft.jit.script.frontend.values import Simple, constant
from weft.tensor.device import Device
from weft.types import tensor_type as tt
from weft.types.dtype import DType
from weft.types.formats import layout, memory_format
from weft.types.sym import fits
from weft.types.tensor_type import Type


def python_constant(value: Any) -> Simple | None:
    """A number, text, dtype, device, layout, memory format, None or `...` as an immediate; None for others."""
    if type(value) is int and not fits(value):
        raise CompileError(f"the integer {value} does not fit into 64 bits")
    if value is None or type(value) in (bool, int, float, complex, str):
        kinds: dict[type, Type] = {bool: tt.BOOL, int: tt.INT, float: tt.FLOAT, complex: tt.COMPLEX, str: tt.STR}
        return constant(value, kinds.get(type(value), tt.NONE))
    if value is ...:
        return constant("...", tt.ANY)
    if isinstance(value, DType):
        return constant(value, tt.DTYPE)
    if isinstance(value, (Device, layout, memory_format)):
        return constant(str.__str__(value), tt.STR)
    return None


_SPACES = ("weft.linalg", "weft.special", "weft.fft")  # of operators that have other names elsewhere
_ROOTS = ("weft", "weft.nn.functional", *_SPACES, "weft.autograd", "weft.nn.init", "weft.nn.utils.rnn")


def path_of(function: Any) -> str | None:
    """Where a function of weft's is found again: `weft.nn.functional.pad`; None for the user's functions."""
    if function is Device:
        return "weft.device"
    if not callable(function) or isinstance(function, type):
        return None
    for root in _ROOTS:
        held = vars(sys.modules[root]) if root in sys.modules else {}
        name: str | None = getattr(function, "__name__", "")
        if held.get(name or "") is not function:  # it may have another name there: weft.special.expit is sigmoid
            name = next((n for n, v in held.items() if v is function), None) if root in _SPACES else None
        if name is not None:
            return f"{root}.{name}"
    return None
