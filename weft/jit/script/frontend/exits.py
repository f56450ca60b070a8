"""How statements leave the code that they stand in, told from their syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def always_leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether nothing behind these statements is ever reached."""
    return any(_always(s) for s in body)


def _always(node: ast.stmt) -> bool:
    if isinstance(node, _LEAVING):
        return True
    if isinstance(node, ast.With):
        return always_leaves(node.body)
    if isinstance(node, ast.If):
        return always_leaves(node.body) and always_leaves(node.orelse)
    return (
        isinstance(node, ast.While)
        and isinstance(node.test, ast.Constant)
        and bool(node.test.value)
        and not leaves_with(node.body, ast.Break)
    )


def may_leave(node: ast.stmt) -> bool:
    """Whether a statement within returns, raises, or breaks or continues a loop around it."""
    return any(isinstance(n, _LEAVING) for n in _reaching([node], False))


def leaves_with(body: Sequence[ast.stmt], *kinds: type[ast.stmt]) -> bool:
    """Whether statements hold a `break` or `continue` of the loop that they are the body of, or a `return` at any
    depth.
    """
    return any(isinstance(n, kinds) for n in _reaching(body, False))


def _reaching(body: Sequence[ast.stmt], in_loop: bool) -> Iterator[ast.stmt]:
    """The statements in a body, those of functions left out; of inner loops only what leaves those too."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            continue
        if not (in_loop and isinstance(node, (ast.Break, ast.Continue))):
            yield node
        inner = in_loop or isinstance(node, (ast.For, ast.While))
        yield from _reaching(getattr(node, "body", []), inner)
        yield from _reaching(getattr(node, "orelse", []), inner)


def assigned_names(body: Sequence[ast.AST]) -> list[str]:
    """The names that statements may give another value, in order."""
    names: dict[str, None] = {}
    for node in body:
        _collect(node, names)
    return list(names)


def _collect(node: ast.AST, names: dict[str, None]) -> None:
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        if isinstance(node, ast.FunctionDef):
            names[node.name] = None
        return
    if isinstance(node, (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)):
        return  # its variables are its own
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        names[node.id] = None
    for child in ast.iter_child_nodes(node):
        _collect(child, names)


def last_assignment(node: ast.AST, name: str) -> ast.AST | None:
    """Where a name is assigned for the last time in a statement."""
    stores = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name]
    return max(stores, key=lambda n: (n.lineno, n.col_offset), default=None)
