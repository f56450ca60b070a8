"""No circle of imports, those for types alone among them: modules that know each other are one module in several files,
and none of them can be read, tested or replaced alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.imports import all_imports_of

ROOT = Path(__file__).parent.parent / "weft"
LARGEST = 4
OF_TENSOR = 14  # in weft/tensor, around Tensor itself; may only fall


def _imports(path: Path, package: str) -> Iterator[str]:
    """The dotted names that a module imports, inside of functions and for type checkers too."""
    for node in all_imports_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = ".".join(filter(None, (package if node.level else "", node.module)))
            yield base  # of a package too: `from weft.nn import functional` asks whatever the package has by that name
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _import_graph() -> dict[str, set[str]]:
    """For each module of weft, the modules of weft that it imports; a package is its __init__."""
    files = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        graph[name] = set(_imports(path, package)) & files.keys() - {name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one node (Tarjan's algorithm), largest first."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            at = stack.index(node)
            found.append(set(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted((c for c in found if len(c) > 1), key=len, reverse=True)


def test_the_measure_finds_circles() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert circles(graph) == [{"a", "b", "c"}, {"d", "e"}]


def test_no_circle_is_large() -> None:
    found = circles(_import_graph())
    in_tensor = [c for c in found if all(name.startswith("weft.tensor.") for name in c)]
    assert not [sorted(c) for c in found if len(c) > LARGEST and c not in in_tensor]
    assert max(map(len, in_tensor)) == OF_TENSOR
