"""Private names stay in their package: no import of `_name` from another one, and no `module._name`
of another one's module."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from tests.imports import tree_of

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "weft").rglob("*.py"))


@functools.cache
def package(module: str) -> str:
    """weft.nn of weft.nn.modules.module; weft of weft.linalg."""
    parts = module.split(".")
    return ".".join(parts[:2]) if (ROOT / Path(*parts[:2])).is_dir() else "weft"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def imports(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(module, name, as what) of every `from weft... import`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "weft":
            for alias in node.names:
                yield node.module, alias.name, alias.asname or alias.name


def borrowed(path: Path, tree: ast.Module) -> list[str]:
    """The private names of other packages that a file uses."""
    own = package(".".join(path.relative_to(ROOT).with_suffix("").parts))
    named = list(imports(tree))
    found = [
        f"from {module} import {name}"
        for module, name, _ in named if is_private(name) and package(module) != own
    ]
    modules = {shown: f"{module}.{name}" for module, name, shown in named if is_module(f"{module}.{name}")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and is_private(node.attr):
            target = modules.get(node.value.id)
            if target is not None and package(target) != own:
                found.append(f"{target}.{node.attr}")
    return found


@functools.cache
def is_module(name: str) -> bool:
    path = ROOT / Path(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_private_names_stay_in_their_package() -> None:
    assert {str(p.relative_to(ROOT)): found for p in FILES if (found := borrowed(p, tree_of(p)))} == {}


def test_the_check_sees_both_ways() -> None:
    file = ROOT / "weft" / "cli" / "main.py"
    text = (
        "from weft.types.dims import _hidden\nfrom weft.types import dims\nfrom weft.cli.main import _own\n"
        "dims._atom(_own, _hidden, dims.__name__)\n"
    )
    assert borrowed(file, ast.parse(text)) == ["from weft.types.dims import _hidden", "weft.types.dims._atom"]
