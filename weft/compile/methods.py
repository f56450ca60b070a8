"""Compiled methods: each instance has programs of its own, which live and die with it.

A program's guards and state hold the instance; were the programs held by the class, no instance would ever go.
So they hang on the instance, as functools.cached_property's values do, and the garbage collector sees one cycle.
The machine code below is shared (live_programs.py).
"""

from __future__ import annotations

import functools
from types import MethodType
from typing import TYPE_CHECKING, Any

from weft.tensor.modes import modes

if TYPE_CHECKING:
    from weft.compile.driver import CompiledFunction

PLACE = "_weft_compiled"  # the attribute of an instance that has its compiled methods


class Methods(dict[str, None]):
    """The compiled methods of an instance, by what its class has. To users, who compare attributes and write them
    as text, an empty dict."""

    def __init__(self) -> None:
        self.of: dict[CompiledFunction, CompiledFunction] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Methods:
        return Methods()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (Methods, ())

    def __repr__(self) -> str:
        return f"<{len(self.of)} compiled methods>"


def method_of(compiled: CompiledFunction, instance: Any) -> Any:
    """What a compiled function of a class is on one of its instances."""
    held = getattr(instance, "__dict__", None)
    # __slots__, or a class; or it becomes a part of the program that is captured
    if type(held) is not dict or modes.capture is not None:
        return functools.partial(compiled, instance)
    methods = held.get(PLACE)
    if methods is None:
        methods = held.setdefault(PLACE, Methods())
    method = methods.of.get(compiled)
    if method is None or method.function.__self__ is not instance:
        if method is not None:  # a shallow copy has the attributes of the other
            methods = held[PLACE] = Methods()
        bound = type(compiled)(MethodType(compiled.function, instance), compiled.name, compiled.backend)
        method = methods.of.setdefault(compiled, bound)
    return method


def is_method(compiled: CompiledFunction) -> bool:
    """Whether it was made by `method_of`."""
    instance = getattr(compiled.function, "__self__", None)
    methods = getattr(instance, "__dict__", {}).get(PLACE)
    return methods is not None and any(method is compiled for method in methods.of.values())
