"""General code asks an operator's entry for traits, never for its name. The list of packages that keep to it grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "weft"
CLEAN = (
    "autograd", "codegen", "compile", "compiled_autograd", "func", "functionalizer", "layers",
    "library", "loops", "passes", "plan",
)


def _is_name(node: ast.AST) -> bool:
    """`op.base`, `node.op.name`, and methods of such a string."""
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Attribute) and _is_name(node.func.value)
            and node.func.attr in ("startswith", "endswith")
        )
    if not isinstance(node, ast.Attribute) or node.attr not in ("base", "name"):
        return False
    return (
        (isinstance(node.value, ast.Attribute) and node.value.attr == "op")
        or (isinstance(node.value, ast.Name) and node.value.id == "op")
    )


def _is_lookup(node: ast.AST) -> bool:
    """`TABLE[op.name]` and `TABLE.get(op.name)`."""
    if isinstance(node, ast.Subscript):
        return _is_name(node.slice)
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        and any(map(_is_name, node.args))
    )


def names_asked(source: str) -> Iterator[int]:
    """Lines that spell an operator's name, or ask for it."""
    tree = ast.parse(source)
    texts = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            found = isinstance(node.value, str) and "aten::" in node.value and id(node) not in texts
        elif isinstance(node, ast.Compare):
            found = any(map(_is_name, (node.left, *node.comparators)))
        else:
            found = _is_lookup(node) or (isinstance(node, ast.Call) and _is_name(node))
        if found:
            yield node.lineno


@pytest.mark.parametrize("package", CLEAN)
def test_no_operator_is_known_by_name(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT.parent)}:{line}" for path in files
        for line in names_asked(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("line", [
    "node.op.name == 'x'", "op.base in NAMES", "T.get(n.op.name)", "T[op.name]", "op.base.endswith('_copy')",
    "f('aten::mm')",
])
def test_the_measure_sees_names(line):
    assert list(names_asked(line)) == [1]


@pytest.mark.parametrize(
    "line",
    ["node.op is aten.mm.op", "f'{node.op.name}: no'", "op.view.keeps_order", "'''aten::mm'''", "dtype.name == 'x'"],
)
def test_the_measure_sees_nothing_else(line):
    assert not list(names_asked(line))
