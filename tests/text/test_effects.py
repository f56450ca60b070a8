"""Every pass keeps what has effects, and its order: each text's graph, with an io or python node behind each of its
nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.noted import noted_operators
from tests.text.test_text import FILES, PASSES
from weft.ir.graph import Graph
from weft.ir.parser import parse_graphs
from weft.ir.verifier import verify

MADE = re.compile(r"^(\s+)(%[\w.]+): ((?:(?:f|i|c|bf)\d+|bool)\[[^\]=]*\]|Tensor) = \w+::.*[^{]$")
# A branch that is known not to be taken, and the steps of a loop one by one: fewer nodes, or the same again.
CHANGING = {"constant_propagation", "unroll"}


@pytest.fixture(autouse=True, scope="module")
def _operators() -> Iterator[None]:
    with noted_operators([]):
        yield


def with_notes(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        made = MADE.match(line)
        if made:
            n = len(lines)
            lines.append(f'{made[1]}%note{n}: {made[3]} = noted::{("io", "python")[n // 2 % 2]}({made[2]}, text="{n}")')
    return "\n".join(lines)


def notes(graph: Graph) -> list[str]:
    return [str(node.args[1]) for node in graph.walk() if node.op.schema.namespace == "noted"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_effects_keep_their_order(path: Path) -> None:
    head, text = path.read_text(encoding="utf-8").split("\n", 1)
    name = head.removeprefix("# pass: ")
    before = parse_graphs(with_notes(text[: text.index("\n}\n") + 3]))[0]
    verify(before)
    made = PASSES[name](before)
    verify(made, f"after {name}")
    expected, found = notes(before), list(dict.fromkeys(notes(made)))
    assert expected and found == [n for n in expected if name not in CHANGING or n in found]
