"""What a miss says to the user (the line, the argument by its name, what was and what is),
and what else a signature tells."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

from weft.support import pytree
from weft.support.locations import Location, is_internal
from weft.support.pytree import TreeSpec

if TYPE_CHECKING:
    from weft.programs.store import Miss

LOCATED = re.compile(r"(<[^>]*>|[^\s:]+):\d+\b")  # a text that begins with a line


class MissText(str):
    """Why a call had no program; remedy: what the user can do about it ("" where the text says that itself)."""

    remedy: str = ""

    @classmethod
    def of(cls, text: str, remedy: str) -> MissText:
        """A text with its remedy."""
        miss = cls(text)
        miss.remedy = remedy
        return miss


def miss_text(miss: Miss, function: Callable[..., Any], spec: TreeSpec) -> MissText:
    """A miss as a sentence that begins with a line: the one that read the value, or where the function is defined."""
    text = miss.text if miss.leaf is None else f"argument {leaf_name(function, spec, miss.leaf)} {miss.text}"
    where = None if LOCATED.match(text) else _defined_at(function)
    return MissText.of(text if where is None else f"{where}: {text}", miss.remedy)


def leaf_name(function: Callable[..., Any], spec: TreeSpec, leaf: int) -> str:
    """A leaf of a call's arguments as the function's code would write it: `x`, `batch['image']`, `rest[0]`."""
    args, kwargs = spec.children
    if leaf < args.size:
        at, inner, rest = _child(args, leaf)
        return _positional(function, at) + _path(inner, rest)
    at, inner, rest = _child(kwargs, leaf - args.size)
    return f"{kwargs.meta[at]}{_path(inner, rest)}"


def call_text(spec: TreeSpec) -> str:
    """The structure of a call's arguments as the call would be written: `(_, [_, _], mode=_)`."""
    args, kwargs = spec.children
    named = [f"{name}={_structure(child)}" for name, child in zip(kwargs.meta, kwargs.children, strict=True)]
    return f"({', '.join([*map(_structure, args.children), *named])})"


def _structure(spec: TreeSpec) -> str:
    return "_" if spec.kind is None else repr(spec).replace("*", "_")


def _child(spec: TreeSpec, leaf: int) -> tuple[int, TreeSpec, int]:
    for at, child in enumerate(spec.children):
        if leaf < child.size:
            return at, child, leaf
        leaf -= child.size
    raise IndexError(f"{spec} has no such leaf")


def _path(spec: TreeSpec, leaf: int) -> str:
    if spec.kind is None:
        return ""
    at, inner, rest = _child(spec, leaf)
    return f"{list(pytree.steps(spec))[at]}{_path(inner, rest)}"


def _positional(function: Callable[..., Any], at: int) -> str:
    for i, (name, several) in enumerate(_parameters(function)):
        if several:
            return f"{name}[{at - i}]"
        if i == at:
            return name
    return str(at)


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, bool]]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # no signature to be had
        return
    for p in parameters:
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL):
            yield p.name, p.kind is p.VAR_POSITIONAL


def takes_keywords(function: Any) -> bool:
    """Whether a function may see in which order its keyword arguments were written."""
    code = _code_of(function)
    return code is None or bool(code.co_flags & inspect.CO_VARKEYWORDS) or hasattr(function, "__wrapped__")


def _code_of(function: Any) -> CodeType | None:
    function = getattr(function, "func", function)  # a partial
    method = getattr(function, "__func__", function)
    code: CodeType | None = (
        getattr(method, "__code__", None) or getattr(getattr(type(function), "forward", None), "__code__", None)
    )
    return code


def _defined_at(function: Any) -> Location | None:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = _code_of(function)
    return None if code is None or is_internal(code.co_filename) else Location(code.co_filename, code.co_firstlineno)
