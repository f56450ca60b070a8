"""Overloads: one function of Python's that is compiled for several signatures."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.jit.errors import CompileError
from weft.jit.program import Program
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.values import Simple, SugaredValue

_DECLARED: dict[str, list[Callable[..., Any]]] = {}


def _key(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def overload(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a signature of the function of this name that is defined behind it."""
    declared = _DECLARED.setdefault(_key(function), [])
    if declared and declared[-1].__code__.co_firstlineno >= function.__code__.co_firstlineno:
        declared.clear()  # the same definitions, run again
    declared.append(function)
    return function


def overloads_of(function: Any) -> list[Callable[..., Any]]:
    """The signatures that were declared for a function; none for most."""
    declared = _DECLARED.get(_key(function), []) if hasattr(function, "__qualname__") else []
    return [] if function in declared else declared


def first_that_takes(
    ctx: Context, node: ast.AST, name: str, programs: Sequence[Program], args: Sequence[SugaredValue],
    kwargs: Mapping[str, SugaredValue], call: Callable[[Program], SugaredValue],
) -> SugaredValue:
    """The call of the first overload that takes the arguments, those first that take them as they are. Raises
    CompileError.
    """
    problems = []
    for program in sorted(programs, key=lambda p: not _takes_as_they_are(p, args, kwargs)):
        try:
            return call(program)
        except CompileError as error:
            problems.append(str(error).partition("\n")[0])
    ctx.fail(node, f"no overload of {name} takes these arguments:\n  " + "\n  ".join(problems))


def _takes_as_they_are(program: Program, args: Sequence[SugaredValue], kwargs: Mapping[str, SugaredValue]) -> bool:
    """Whether no argument would have to be converted."""
    kinds = {p.name: p.type for p in program.parameters}
    pairs = [*zip(kinds.values(), args, strict=False), *((kinds.get(n), v) for n, v in kwargs.items())]
    return all(
        kind is not None and (not isinstance(v, Simple) or v.type.is_subtype_of(kind)) for kind, v in pairs
    )
