"""weft.jit.script."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
from typing import Any

from weft.jit.errors import CompileError
from weft.jit.functions import CompilationUnit, ScriptFunction, script_function
from weft.jit.module import RecursiveScriptModule, ScriptModule, compile_forward, wrapped
from weft.jit.script.annotations import is_plain_class
from weft.jit.script.frontend.classes.script_classes import description_of
from weft.jit.script.frontend.compile import method_of_class
from weft.jit.script.frontend.module_hooks import has_hooks
from weft.jit.script.marks import prepared
from weft.jit.script.own_functions import own_function
from weft.jit.script.source import refuse_class
from weft.nn.modules.module import Module


def script(obj: Any) -> Any:
    """The scripted form of a function, a Module, a class, or a text with functions; of an object the class is compiled.
    Raises CompileError that shows the place.

    >>> @weft.jit.script
    ... def count(x: weft.Tensor, n: int) -> weft.Tensor:
    ...     for i in range(n):
    ...         x = x + i
    ...     return x
    """
    obj = prepared(obj)
    if isinstance(obj, ScriptFunction):
        return obj
    if isinstance(obj, str):
        return CompilationUnit(obj, _frames_up=1)
    if isinstance(obj, (types.FunctionType, types.MethodType)):
        return own_function(obj) or script_function(obj)
    if isinstance(obj, Module):
        return script_module(obj)
    if isinstance(obj, type) and issubclass(obj, enum.Enum):
        return obj  # programs know enumerations as they are
    if is_plain_class(obj) or dataclasses.is_dataclass(obj):
        return script_class(obj)
    if is_plain_class(type(obj)):
        script_class(type(obj))
        return obj
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


def script_module(module: Module) -> ScriptModule:
    """The scripted form of a Module and its submodules: `forward`, what it calls, and what is marked @export."""
    scripted: dict[int, ScriptModule] = {}
    root = wrapped(module, scripted)
    module = root.__dict__["_original"] or module
    if type(module).forward is not Module.forward or "forward" in vars(module):
        compile_forward(root, module)
        if has_hooks(root):
            root._compiled("__call__")
    compile_exported(root)
    return root


def compile_exported(root: ScriptModule) -> None:
    """Compile what is marked @export, in a Module and its submodules."""
    for module in root.modules():
        if isinstance(module, RecursiveScriptModule):
            for name in _exported(module):
                module._compiled(name)


def _exported(wrapper: ScriptModule) -> list[str]:
    cls = wrapper._original_class()
    return [n for n in dir(cls) if getattr(inspect.getattr_static(cls, n), "__weft_script__", None) == "export"]
