"""weft.jit.script."""

from __future__ import annotations

import types
from typing import Any

from weft.jit.errors import CompileError
from weft.jit.functions import CompilationUnit, ScriptFunction, script_function
from weft.jit.module import script_module
from weft.nn.modules.module import Module


def script(obj: Any) -> Any:
    """The scripted form of a function, a Module, or a text with functions. Raises CompileError that shows the place.

    >>> @weft.jit.script
    ... def count(x: weft.Tensor, n: int) -> weft.Tensor:
    ...     for i in range(n):
    ...         x = x + i
    ...     return x
    """
    if isinstance(obj, ScriptFunction):
        return obj
    if isinstance(obj, str):
        return CompilationUnit(obj, _frames_up=1)
    if isinstance(obj, (types.FunctionType, types.MethodType)):
        return script_function(obj)
    if isinstance(obj, Module):
        return script_module(obj)
    raise CompileError(f"weft.jit.script: functions, Modules and texts can be compiled, not a {type(obj).__name__}")
