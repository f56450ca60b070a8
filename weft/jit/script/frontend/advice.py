"""What to write instead of what cannot be compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from weft.support.knobs import nearest
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type

_ELSEWHERE = "a scripted function may call Python that does: @weft.jit.ignore"
_INSTEAD: dict[str, tuple[str, str]] = {
    "Lambda": ("a lambda", "define a function with `def`"),
    "GeneratorExp": ("a generator expression", "write a list: `[... for ...]`"),
    "SetComp": ("a set", "write a list, or a dict with the elements as keys"),
    "Set": ("a set", "write a list, or a dict with the elements as keys"),
    "Yield": ("yield", "put the values into a list, and return it"),
    "YieldFrom": ("yield", "put the values into a list, and return it"),
    "Await": ("await", "call the function as it is, or weft.jit.fork and wait"),
    "Starred": ("a starred expression", "name each argument"),
    "Try": ("the statement `try`", f"ask first (`if`) what would raise; {_ELSEWHERE}"),
    "TryStar": ("the statement `try`", f"ask first (`if`) what would raise; {_ELSEWHERE}"),
    "ClassDef": ("a class within a function", "define it outside of the function"),
    "Import": ("the statement `import`", "import it outside of the function"),
    "ImportFrom": ("the statement `import`", "import it outside of the function"),
    "Global": ("the statement `global`", "take the value as an argument, and return what it becomes"),
    "Nonlocal": ("the statement `nonlocal`", "take the value as an argument, and return what it becomes"),
    "Match": ("the statement `match`", "write `if` and `elif`"),
    "AsyncFunctionDef": ("an async function", "write `def`"),
    "AsyncFor": ("the statement `async for`", "write `for`"),
    "AsyncWith": ("the statement `async with`", "write `with`"),
}


def instead_of(node: ast.AST) -> str:
    """The text of a refusal: syntax that has no meaning in a program, and what to write."""
    kind = type(node).__name__
    spoken, instead = _INSTEAD.get(kind, (f"`{kind.lower()}`", _ELSEWHERE))
    return f"{spoken} cannot be compiled; {instead}"


def undefined(name: str, names: Iterable[str]) -> str:
    """The text of a refusal: a name that nothing has defined."""
    return f"undefined value {name}{nearest(name, names)}; give it a value first, or take it as an argument"


def asking(kind: Type) -> str:
    """What to ask before a value of several types is used."""
    if isinstance(kind, tt.UnionType) or kind is tt.ANY:
        return "; ask first which type it has: `if isinstance(x, int):`"
    return ""


def converting(actual: Type, wanted: Type) -> str:
    """How a value of one type becomes one of another."""
    if isinstance(actual, tt.OptionalType) and actual.inner.is_subtype_of(wanted):
        return "; check first that it is not None: `assert x is not None`"
    if wanted in (tt.INT, tt.FLOAT, tt.BOOL, tt.STR) and actual in (tt.INT, tt.FLOAT, tt.BOOL, tt.STR):
        return f"; convert it: `{wanted}(...)`"
    if wanted is tt.TENSOR and actual in (tt.INT, tt.FLOAT, tt.BOOL):
        return "; make a tensor of it (`weft.tensor(...)`), or annotate the type"
    return "; make it one, or change the annotation"
