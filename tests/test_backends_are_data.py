"""No layer names a back end: payloads and devices do. The dense one alone asks whether a payload is an ndarray."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imports import tree_of

ROOT = Path(__file__).parent.parent / "weft"
PACKAGES = (
    "autograd", "compile", "compiled_autograd", "func", "functionalizer", "interop", "jit", "layers", "lazy", "library",
    "nn", "onnx", "optim", "tensor", "utils",
)
DENSE = {
    "layers/backends.py",  # chooses: an ndarray cannot name its back end
    "layers/dense.py",
    "layers/fast.py",
    "layers/fast_indexing.py",
    "tensor/dense.py",
    "tensor/tensor.py",  # the constructor, which takes sizes and lists too
}
BACK_ENDS = ("abstract", "dense", "dispatch")


def _asks(node: ast.AST) -> bool:
    """`type(x) is ndarray`, `isinstance(x._data, ndarray)`."""
    if isinstance(node, ast.Compare):
        is_type = isinstance(node.left, ast.Call) and ast.unparse(node.left.func) == "type"
        return is_type and any(ast.unparse(c) in ("ndarray", "np.ndarray", "numpy.ndarray") for c in node.comparators)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance" and len(node.args) == 2:
        return "ndarray" in ast.unparse(node.args[1]) and ast.unparse(node.args[0]).endswith("._data")
    return False


def array_tests(source: str) -> Iterator[int]:
    """Lines that ask whether something is an ndarray by its very type, as payloads are asked."""
    return (node.lineno for node in ast.walk(ast.parse(source if "ndarray" in source else "")) if _asks(node))


@pytest.mark.parametrize("package", PACKAGES)
def test_arrays_are_asked_for_by_the_dense_back_end_alone(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = [
        f"weft/{path.relative_to(ROOT)}:{line}" for path in files if str(path.relative_to(ROOT)) not in DENSE
        for line in array_tests(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_tensors_do_not_ask():
    assert not list(array_tests((ROOT / "tensor/tensor.py").read_text(encoding="utf-8")))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("name", [*BACK_ENDS, "walk"])
def test_no_layer_names_another_back_end(name):
    others = {f"weft.layers.{other}" for other in BACK_ENDS if other != name}
    assert not imported(ROOT / f"layers/{name}.py") & others


@pytest.mark.parametrize("line", [
    "type(x._data) is np.ndarray", "type(d) is not ndarray", "isinstance(x._data, np.ndarray)",
])
def test_the_measure_sees_tests(line):
    assert list(array_tests(line)) == [1]


@pytest.mark.parametrize("line", ["isinstance(data, np.ndarray)", "type(x) is Tensor", "np.ndarray(2)"])
def test_the_measure_sees_nothing_else(line):
    assert not list(array_tests(line))
