"""Graphs from text: weft's notation and TorchScript's; functions from graphs; what is wrong with a text."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.jit
from weft.support.errors import ParseError

STORED = """graph(%x : Tensor, %n : int):
  %one : int = prim::Constant[value=1]()
  %2 : bool = prim::Constant[value=1]() # a.py:3:4
  %y : Tensor = aten::add(%x, %n, %one)
  %c : bool = aten::gt(%n, %one)
  %k : int = aten::add(%n, %one)
  %z : Tensor = prim::If(%c)
    block0():
      %w : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu) = aten::relu(%y)
      -> (%w)
    block1():
      -> (%x)
  %l : int[] = prim::ListConstruct(%n, %k)
  %r : Tensor = prim::Loop(%n, %2, %z)
    block0(%i : int, %a : Tensor):
      %b : Tensor = aten::mul_(%a, %i)
      %q : int = aten::__getitem__(%l, %one)
      %e : Tensor = aten::sub(%b, %q, %one)
      -> (%2, %e)
  %s : int = aten::size(%r, %one)
  %t : (Tensor, int) = prim::TupleConstruct(%r, %s)
  return (%t)
"""


def plain(x, n: int):
    y = x + n
    z = weft.relu(y) if n > 1 else x
    for i in range(n):
        z = z * i - (n + 1)
    return z, x.size(1)


@pytest.fixture
def graph():
    return weft.jit.parse_ir(STORED)


def test_a_stored_graph_runs(graph) -> None:
    graph.lint()
    function = weft.jit.create_function_from_graph("stored", graph)
    rng = np.random.default_rng(0)
    for _ in range(4):
        n, x = int(rng.integers(2, 6)), weft.from_numpy(rng.normal(size=(2, 3)).astype(np.float32))
        (a, size), (b, other) = plain(x, n), function(x.clone(), n)
        assert weft.equal(a, b) and size == other
    assert function.schema == "stored(Tensor x, int n) -> (Tensor, int)"


def test_its_text_is_weft_s_from_then_on(graph) -> None:
    assert str(weft.jit.parse_ir(str(graph))) == str(graph)
    assert graph.findNode("aten::mul_") is not None and graph.findNode("prim::add") is not None


def test_several_results_come_as_a_tuple() -> None:
    graph = weft.jit.parse_ir("graph @two(%x: Tensor) {\n  %0: Tensor = aten::relu(%x)\n  return %0, %x\n}")
    x = weft.randn(3)
    a, b = weft.jit.create_function_from_graph("two", graph)(x)
    assert b is x and weft.equal(a, weft.relu(x))


WRONG = [
    ("%y : Tensor = aten::add(%x", "%y : Tensor = aten::unheard(%x", "line 4, column 3: no operator aten::unheard"),
    ("%k : int", "%y : int", "line 6, column 3: %y is defined twice"),
    ("-> (%x)", "-> (%nothing)", "line 12, column 7: %nothing is not defined"),
    ("return (%t)", "return %t", "line 22, column 3: expected return"),
    ("%c : bool", "%c : Tensor", "line 5, column 3: %c is said to be of type Tensor, and is of type bool"),
    ("aten::relu(%y)", "aten::relu(%y, %n)", "line 9, column 7: relu() takes 1 arguments, not 2"),
    ("aten::relu(%y)", "aten::relu(%l)", "line 9, column 7: %l is not defined"),
    ("block1", "block2", "line 11, column 5: expected block1"),
    ("Float(", "Flot(", "line 9, column 7: Flot"),
    ("-> (%2, %e)", "-> (%2)", "the block yields 1 values, should yield 2"),
    ("return (%t)", "return (%t)\nx", "line 23, column 1: expected the end"),
    ("%w : Float", "%w - Float", "line 9, column 7: expected %name : type"),
]


@pytest.mark.parametrize("old,new,words", WRONG, ids=[w[2][-30:] for w in WRONG])
def test_what_is_wrong_with_a_text(old, new, words) -> None:
    assert old in STORED
    with pytest.raises(ParseError, match=re.escape(words)):
        weft.jit.parse_ir(STORED.replace(old, new))
