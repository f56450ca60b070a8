"""Text that was cut, or had words left out, replaced or doubled, is a graph that prints back, or one error with line
and column: never another one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import weft  # noqa: F401  (defines the operators)
from tests.agree.control import draw_control
from weft.ir.parser import parse_graph, parse_graphs
from weft.ir.verifier import verify
from weft.support.errors import ParseError, VerifyError

TEXTS = Path(__file__).parents[2] / "text"
WORDS = re.compile(r'"[^"\n]*"|[%@]?[\w:.]+|->|\S')
STRAY = str.split(
    '%x %0 ( ) [ ] { } , : = -> f32 f64[s0] int prim::If prim::Loop aten::add.Tensor aten::nope autograd::MulBackward0 '
    'autograd::X yield return True None '
    'nan inf - 1e999 99999999999999999999 "abc "\\x" "a" s0 u0 graph example guard == @g @ % complex( complex(f32,'
    '1) // 0 (s0//0) max( # \0 é f32[ Optional[ '
    "-nan --1 0x10 1. ' i64[]? (int,) List(f32)"
)


def spoiled(text: str, rng: np.random.Generator) -> str:
    """The text with something wrong in it, probably."""
    if rng.random() < 0.2:
        return text[: int(rng.integers(len(text)))]
    for _ in range(int(rng.integers(1, 4))):
        found = list(WORDS.finditer(text))
        if not found:
            break
        here, there = (found[int(i)] for i in rng.integers(len(found), size=2))
        put = [" ", str(rng.choice(STRAY)), there.group(), f"{here.group()} {here.group()}"][int(rng.integers(4))]
        text = text[: here.start()] + put + text[here.end() :]
    return text


def test_spoiled_text(rng: np.random.Generator) -> None:
    texts = [
        f"graph {part}" for path in TEXTS.glob("*.ir") for part in path.read_text(encoding="utf-8").split("graph ")[1:]
    ]
    texts += [draw_control(rng, 6).text for _ in range(10)]
    refused = 0
    for _ in range(500):
        text = spoiled(str(rng.choice(texts)), rng)
        try:
            graphs = parse_graphs(text)
        except ParseError as error:
            refused += 1
            line, column = map(int, re.match(r"line (\d+), column (\d+): \S", str(error)).groups())  # type: ignore[union-attr]
            assert line <= text.count("\n") + 1 and column <= max(map(len, text.split("\n"))) + 1
            continue
        for graph in graphs:
            try:
                verify(graph)
            except VerifyError:
                continue
            assert str(parse_graph(str(graph))) == str(graph)
    assert refused > 200
