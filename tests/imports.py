"""The syntax trees of weft's own files, each parsed once in a process, and their imports."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, which nobody may change."""
    gc.disable()  # (each of its collections would walk over all trees)
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def imports_of(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import statement of a file, inside of functions too, in order; `TYPE_CHECKING` blocks do not run and do
    not count."""
    return list(_imports(tree_of(path).body))


def _imports(statements: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in statements:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            for block in ("body", "orelse", "finalbody", "handlers", "cases"):  # statements stand nowhere else
                yield from _imports(getattr(node, block, []))


@functools.cache
def all_imports_of(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import statement of a file, those that only a type checker sees too."""
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, (ast.Import, ast.ImportFrom))]
