"""Custom Functions that may be traced (`is_traceable`): a call is a program of its own, whose backward captured
backwards copy in, operator by operator."""

from __future__ import annotations

from typing import Any

from weft.autograd.function import Function
from weft.compile.driver import CompiledFunction
from weft.support.errors import CaptureError

_PLAIN = object()  # of a Function that cannot be captured


def open_function(function: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a Function by its program; as it is written, now and later, if it cannot be captured."""
    program: Any = function.__dict__.get("_opened")
    if program is None:
        program = CompiledFunction(_call_of(function), function.__name__)
        setattr(function, "_opened", program)  # noqa: B010  it lives as long as the Function
    if program is not _PLAIN:
        try:
            return program(*args, **kwargs)
        except CaptureError:
            setattr(function, "_opened", _PLAIN)  # noqa: B010
    return function._apply(*args, **kwargs)


def _call_of(function: type[Function]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function._apply(*args, **kwargs)

    return call
