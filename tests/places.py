"""Where an operator is written: the files of weft that define it, have a rule of its own for it, or list its name.
What only calls it, in the body of a function or in a formula, does not count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.imports import tree_of

WEFT = Path(__file__).resolve().parents[1] / "weft"
ARGUMENTS = WEFT / "ops/bind.py"  # lists names of arguments
NAMED = (WEFT / "array_api", WEFT / "masked.py")  # functions that a standard, or PyTorch, names like what they call
_NAMESPACES = ("aten", "np", "math")


def places_of(name: str) -> set[str]:
    """Paths within weft/."""
    return {
        str(path.relative_to(WEFT)) for path in WEFT.rglob("*.py")
        if path != ARGUMENTS and not {path, *path.parents} & {*NAMED} and any(_mentions(tree_of(path), name))
    }


def _mentions(node: ast.AST, name: str) -> Iterator[bool]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Lambda):
            continue
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child.name == name
            for decorator in child.decorator_list:
                yield from _mentions(ast.Expr(decorator), name)
            continue
        yield _is_name(child, name)
        yield from _mentions(child, name)


def _is_name(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        is_prose = re.search(r"[.,:;]( |$)", node.value) is not None and "::" not in node.value
        return re.match(rf"(aten|math)::{name}(?!\w)", node.value) is not None or (
            not is_prose and name in node.value.split()
        )
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.value, ast.Name) and node.value.id in _NAMESPACES
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
