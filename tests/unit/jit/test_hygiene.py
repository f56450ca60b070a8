"""S3.28: strides of single numbers, the layout of generated code, errors that name operator and line."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import weft
import weft.jit

RNG = np.random.default_rng(28)


def test_a_single_number_has_no_strides() -> None:
    @weft.jit.script
    def strides(x):
        return x.stride(), x.sum().stride(), x.is_contiguous()

    for x in (weft.tensor(3.0), weft.tensor(3), weft.empty((), device="meta")):
        assert x.stride() == () and x.is_contiguous()
    assert strides(weft.tensor(3.0)) == ([], [], True) and strides(weft.ones(2, 3)[0]) == ([1], [], True)


def nested(depth: int) -> str:
    """The source of a function with so many blocks within each other."""
    lines = ["def f(x, n: int):", '    text = "a\\n  b"']
    for level in range(depth):
        pad = "    " * (level + 1)
        lines += (
            (f"{pad}for i{level} in range(n):", f"{pad}    x = x + i{level}"),
            (f"{pad}if n > {level}:", f"{pad}    x = x * 2"),
            (f"{pad}while x.sum() < {10 * level}:", f"{pad}    x = x + 1", f"{pad}    print(text)"),
        )[int(RNG.integers(3))]
    return "\n".join([*lines, "    return x, [n, 2]", ""])


@pytest.mark.parametrize("depth", range(1, 8))
def test_generated_code_keeps_its_blocks(depth: int) -> None:
    function = weft.jit.CompilationUnit(nested(depth)).f
    (definition,) = ast.parse(function.code).body
    blocks = [n for n in ast.walk(definition) if isinstance(n, (ast.For, ast.If))]
    kinds = [n.kind() for n in function.graph.walk()]
    assert len(blocks) >= sum(str(k) in ("prim::Loop", "prim::If") for k in kinds) == depth
    assert ("a\\n  b" in function.code) == ("prim::Print" in map(str, kinds))


WRONG = [
    ("x @ x", "matmul"), ("weft.cat([x, weft.ones(2, 2, 2)])", "cat"), ("x.view(7)", "view"), ("x + y", "add"),
    ("x.expand(5, 5)", "expand"), ("F.linear(x, y)", "linear"), ("x.reshape(3, 3)", "reshape"), ("x[9]", "select"),
    ("x.index_select(5, y)", "index_select"), ("weft.stack([x, y])", "stack"), ("x.add_(weft.ones(7, 7))", "add_"),
    ("F.conv2d(x, y)", "conv2d"), ("x.chunk(0)", "chunk"), ("weft.linalg.inv(x)", "linalg_inv"),
]  # fmt: skip


@pytest.mark.parametrize("expression,operator", WRONG, ids=[name for _, name in WRONG])
def test_an_error_names_operator_and_line(expression: str, operator: str) -> None:
    skipped = int(RNG.integers(5))
    source = "def f(x, y):\n" + "    x = x * 2\n" * skipped + f"    return {expression}\n"
    with pytest.raises(weft.jit.Error, match=rf"aten::{operator} at <string>, line {skipped + 2}, column 12$"):
        weft.jit.CompilationUnit(source).f(weft.ones(2, 3), weft.ones(5))
