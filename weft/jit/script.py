"""weft.jit.script."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

from weft.jit.annotations import is_plain_class
from weft.jit.errors import CompileError
from weft.jit.frontend.classes.script_classes import description_of
from weft.jit.frontend.compile import method_of_class
from weft.jit.functions import CompilationUnit, ScriptFunction, script_function
from weft.jit.module import script_module
from weft.jit.source import refuse_class
from weft.nn.modules.module import Module


def script(obj: Any) -> Any:
    """The scripted form of a function, a Module, a class, or a text with functions. Raises CompileError that shows the
    place.

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
    if is_plain_class(obj) or dataclasses.is_dataclass(obj):
        return script_class(obj)
    kind = type(obj).__name__
    raise CompileError(f"weft.jit.script: functions, classes, Modules and texts can be compiled, not a {kind}")


def script_class(cls: type) -> type:
    """Compile every method of a class, which programs can then make objects of. Gives back the class. Raises
    CompileError.
    """
    if len(cls.__mro__) > 2:
        refuse_class(
            cls,
            f"weft.jit.script: {cls.__name__} is derived from {cls.__mro__[1].__name__}; classes of scripted programs "
            "do not support inheritance: hold an object of that class as an attribute"
        )
    owner = description_of(cls)
    for name in owner.methods():
        method_of_class(owner, name)
    return cls
