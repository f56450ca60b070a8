"""Marks that tell the compiler what to do with a function: ignore, unused, export; and annotate, which gives an
expression a type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from weft.jit.errors import CompileError
from weft.jit.script.annotations import INTERFACES, UnknownType, type_of_annotation
from weft.nn.modules.module import Module
from weft.tensor.modes import active_trace


def ignore(function: Any = None, *, drop: bool = False, **kwargs: Any) -> Any:
    """Leave a function in Python: scripted programs call it when they run. Its annotations say what it takes and
    gives; tensors where there are none.

    With drop=True, as `unused`.
    """
    if isinstance(function, bool):
        drop, function = function, None

    def mark(f: Callable[..., Any]) -> Callable[..., Any]:
        f.__weft_script__ = "unused" if drop else "ignore"  # type: ignore[attr-defined]
        return f

    return mark if function is None else mark(function)


def unused(function: Any) -> Any:
    """Replace a function, or a property, by an exception: what cannot be compiled, and a scripted program never
    reaches.
    """
    marked: tuple[Any, ...] = (function.fget, function.fset) if isinstance(function, property) else (function,)
    for one in marked:
        if one is not None:
            one.__weft_script__ = "unused"
    return function


def export(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile this method of a Module too, though forward does not call it."""
    function.__weft_script__ = "export"  # type: ignore[attr-defined]
    return function


def prepared(value: Any) -> Any:
    """What is compiled in place of an object whose class says so: of a call that `weft.compile` made the function or
    Module that it was made of."""
    prepare = getattr(type(value), "__prepare_scriptable__", None)
    return value if prepare is None or isinstance(value, type) else prepare(value)


def interface(cls: type) -> type:
    """Decorator: a class whose methods' signatures are a type. Objects and Modules that have such methods are of it.
    Raises CompileError for a class that is derived from another one than Module.
    """
    others = [c.__name__ for c in cls.__bases__ if c not in (object, Module)]
    if others:
        raise CompileError(
            f"the interface '{cls.__name__}' is derived from {others[0]}: an interface does not support inheritance "
            "yet. Please directly write down the methods that it asks for"
        )
    INTERFACES.add(cls)
    return cls


class Attribute(NamedTuple):
    """An attribute of a Module with the type that it has in scripted programs: `self.names = Attribute([], List[str])`.
    """

    value: Any
    type: Any


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; in a scripted program, as one of the type: `annotate(List[int], [])`."""
    return the_value


annotate.__weft_annotate__ = True  # type: ignore[attr-defined]


def is_scripting() -> bool:
    """Whether this line runs in a scripted program: False in Python, True where it is compiled."""
    return False


def is_tracing() -> bool:
    """Whether a trace is being recorded."""
    return active_trace() is not None


def isinstance_of(value: Any, kind: Any) -> bool:
    """`weft.jit.isinstance`: whether a value is of a type, elements of containers included: `List[int]`. Raises
    CompileError for what is no type of a program.
    """
    from weft.jit.program import has_type  # programs stand above marks

    kinds = kind if type(kind) is tuple else (kind,)
    try:
        wanted = [type_of_annotation(k) for k in kinds]
    except UnknownType as problem:
        raise CompileError(f"weft.jit.isinstance: {problem}") from None
    return any(has_type(value, k) for k in wanted)


def unwrap_optional(value: Any) -> Any:
    """The value, which must not be None. Raises AssertionError."""
    assert value is not None, "Unwrapping null optional"
    return value


__all__ = [
    "Attribute", "Final", "annotate", "export", "ignore", "interface", "is_scripting", "is_tracing", "isinstance_of",
    "unused", "unwrap_optional",
]
