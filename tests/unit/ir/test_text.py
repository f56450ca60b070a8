"""Graphs as text: printing, parsing, and what the parser says about text that is no graph."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft  # noqa: F401  (defines the operators)
from tests.compare_graphs import difference
from weft.ir.builder import Builder, Handle
from weft.ir.evaluate import interpret
from weft.ir.parser import parse_graph, parse_graphs
from weft.ir.printer import print_graph
from weft.ir.structure import CONSTANT
from weft.ir.verifier import verify
from weft.ops.op import OPS
from weft.ops.packet import aten
from weft.support.errors import ParseError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.tensor_type import FLOAT, tensor_type

LOSS = """\
graph @loss(%x: f32[s0, 4], %w: f32[4, 3], %p: b1[], %state: f32[3]) {
  example s0 = 16
  guard s0 != 1  # train.py:3
  %0: f32[s0, 3] = aten::mm(%x, %w)  # train.py:12
  %y: f32[s0, 3] = prim::If(%p) {  # train.py:13
    %1: f32[s0, 3] = aten::relu(%0)
    yield %1
  } else {
    yield %0
  }
  %last: f32[3], %rows: f32[s0, 3] = prim::Loop(trip=s0, condition=True, carried=[%state], xs=[%y]) (%i: int, %c: f32[3], %r: f32[3]) {
    %2: f32[3] = aten::mul.Tensor(%c, other=0.5)
    %3: f32[3] = aten::add.Tensor(%2, %r)
    yield True, %3, %2
  }
  %4: f32[3] = aten::sum(%rows, dim=[0])
  return %4, %last -> %state
}"""  # noqa: E501


def round_trip(graph):
    text = str(graph)
    again = parse_graph(text)
    assert str(again) == text
    assert difference(graph, again) is None
    return again


def test_text_with_blocks_is_printed_as_it_was_written():
    graph = parse_graph(LOSS)
    assert str(graph) == LOSS
    verify(graph)
    assert graph.writes == ((1, 3),)
    assert graph.env.examples == {"s0": 16}
    assert str(graph.nodes[0].where) == "train.py:12" and str(graph.nodes[1].where) == "train.py:13"


def test_parsed_text_runs(rng):
    graph = parse_graph(LOSS)
    rows = int(rng.integers(0, 9))
    x, w, state = (
        rng.standard_normal((rows, 4), np.float32), rng.standard_normal((4, 3), np.float32),
        rng.standard_normal(3, np.float32)
    )
    for flag in (True, False):
        y = x @ w
        y = np.maximum(y, 0) if flag else y
        c, total = state.copy(), np.zeros(3, np.float32)
        for r in y:
            total = total + c * np.float32(0.5)
            c = c * np.float32(0.5) + r
        out = interpret(graph, [x, w, np.array(flag), state])
        np.testing.assert_allclose(out[0], total, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(out[1], c, rtol=1e-5, atol=1e-5)


IMMEDIATES = [
    0, -7, 2**70, 0.1, -0.0, 1e300, 1e-5, 5e-324, math.inf, -math.inf, True, False, None, "mean", 'a "quoted" # word\n',
    complex(0.0, -2.5), complex(-0.0, math.inf), dt.float32, dt.int8, dt.bfloat16, (), (1, (2.5, None), ("x",)),
    dm.symbol("s0"), dm.symbol("s0") * dm.symbol("s1") + 2,
    -dm.symbol("i0"), dm.floordiv(dm.symbol("s0") + 1, 2), dm.mod(dm.symbol("s0"), dm.symbol("s1")) * 3,
    dm.maximum(dm.symbol("s0"), 4) - dm.minimum(dm.symbol("s1"), dm.symbol("s0")),
]


@pytest.mark.parametrize("value", IMMEDIATES, ids=repr)
def test_immediates_come_back_exactly(value):
    b = Builder("literals")
    b.emit_raw(CONSTANT, (value, (), dt.float32), (tensor_type(dt.float32, ()),))
    again = round_trip(b.graph([value]))
    assert repr(again.results[0]) == repr(value) and type(again.results[0]) is type(value)


def test_nan_comes_back():
    graph = parse_graph("graph @g() {\n  return nan, -nan\n}")
    assert all(math.isnan(r) for r in graph.results)


def test_defaults_are_left_out_only_if_they_are_the_same_kind_of_number():
    b = Builder("defaults")
    x = Handle(b.param(tensor_type(dt.float32, (3,)), "x"), b)
    add = OPS["aten::add.Tensor"]
    for alpha in (1, 1.0, True, 2):
        b.emit_raw(add, (x.value, x.value, alpha), (x.value.type,))
    text = str(b.graph([]))
    assert [line.split("aten::add.Tensor")[1] for line in text.splitlines() if "add" in line] == [
        "(%x, %x)", "(%x, %x, alpha=1.0)", "(%x, %x, alpha=True)", "(%x, %x, alpha=2)"]
    again = parse_graph(text)
    assert [repr(n.args[2]) for n in again.nodes] == ["1", "1.0", "True", "2"]


def test_names_are_kept_and_made_unique():
    b = Builder("<lambda>")
    values = [b.param(FLOAT, name) for name in ("x", "x", "", "x_1", "a b/c", "3rd", "")]
    graph = b.graph(values)
    assert str(graph).splitlines()[0] == (
        'graph @"<lambda>"(%x: float, %x_1: float, %0: float, %x_1_1: float, %a_b_c: float, %_3rd: float, %1: float) {')
    again = parse_graph(str(graph))
    assert str(again) == str(graph) and again.name == "<lambda>"


def test_opaque_backward_calls_are_found_by_name():
    text = (
        "graph @g(%g: f32[2], %x: f32[2]) {\n"
        "  %0: Tensor = autograd::MulBackward0([%g], needs=[True, False], packed=[%x, None])\n"
        "  %1: f32[2] = autograd::validate_outputs(%0, dims=[2], dtype=f32)\n"
        "  return %1\n}")
    graph = parse_graph(text)
    assert str(graph) == text
    verify(graph)
    g, x = np.float32([1, 2]), np.float32([3, 5])
    np.testing.assert_array_equal(interpret(graph, [g, x])[0], g * x)


def test_symbols_made_after_parsing_are_new():
    graph = parse_graph("graph @g(%x: f32[s0, s4, i2]) {\n  return %x\n}")
    assert str(graph.env.fresh("s", 1)) == "s5" and str(graph.env.fresh("i", 1)) == "i3"
    for _ in range(20):
        assert dt.by_short(str(graph.env.fresh("i", 1))) is None  # never i8, i16, i32: dtypes


def test_canonical_text_has_neither_lines_nor_examples():
    text = print_graph(parse_graph(LOSS), locations=False, symbols=False)
    assert "train.py" not in text and "example" not in text and "guard" not in text


def test_several_graphs_in_one_text():
    one, two = "graph @a(%x: int) {\n  return %x\n}", "graph @b() {\n  return\n}"
    assert [str(g) for g in parse_graphs(f"{one}\n\n# between\n{two}\n")] == [one, two]


def test_random_graphs_round_trip(rng):
    b = Builder("random")
    dims = (b.env.fresh("s", 3), int(rng.integers(1, 5)))
    values = [Handle(b.param(tensor_type(dt.float64, dims), "x"), b)]
    unary = ("relu", "tanh", "exp", "neg", "sigmoid")
    for _ in range(40):
        x, y = (values[int(rng.integers(len(values)))] for _ in range(2))
        made = [
            getattr(aten, unary[int(rng.integers(len(unary)))])(x), aten.add(x, y, alpha=float(rng.standard_normal())),
            aten.where(aten.gt(x, 0.25), x, y), aten.mul(x, 2),
        ]
        values.append(made[int(rng.integers(4))])
    graph = b.graph([v.value for v in values[-3:]])
    verify(round_trip(graph))


WRONG = {
    "graph @g(%x: f32[2]) {\n  %1: f32[2] = aten::relu(%y)\n  return %1\n}": ("line 2, column 27", "%y is not defined"),
    "graph @g(%x: f32[2]) {\n  %x: f32[2] = aten::relu(%x)\n  return %x\n}": (
        "line 2, column 3", "%x is defined twice"
    ),
    "graph @g(%x: f33[2]) {\n  return %x\n}": ("line 1, column 14", "'f33' is no type"),
    "graph @g(%x: f32[n]) {\n  return %x\n}": ("line 1, column 18", "expected a size"),
    "graph @g(%x: f32[2]) {\n  %1: f32[2] = aten::relux(%x)\n  return %1\n}": (
        "line 2, column 16", "no operator aten::relux"
    ),
    "graph @g(%x: f32[2]) {\n  %1: f32[2] = aten::add(%x, %x)\n  return %1\n}": (
        "line 2, column 16", "there are aten::add.Tensor"
    ),
    "graph @g(%x: f32[2]) {\n  %1: f32[2] = aten::relu()\n  return %1\n}": (
        "line 2, column 26", "needs argument 'self'"
    ),
    "graph @g(%x: f32[2]) {\n  %1: f32[2] = aten::relu(%x, speed=3)\n  return %1\n}": (
        "line 2, column 31", "has no argument 'speed'"
    ),
    "graph @g(%x: f32[2]) {\n  %1: f32[2] = aten::relu(x)\n  return %1\n}": ("line 2, column 27", "written %x"),
    "graph @g(%x: f32[2]) {\n  %1: f32[2] = aten::relu(%x)\n  return %1 -> %1\n}": (
        "line 3, column 16", "no parameter"
    ),
    "graph @g(%x: f32[4 // 0]) {\n  return %x\n}": ("line 1, column 23", "divided by zero"),
    "graph @g(%x: f32[2]) {\n  return \"\\x\"\n}": ("line 2, column 10", "not a text that JSON knows"),
    "graph @\"\\x\"(%x: f32[2]) {\n  return %x\n}": ("line 1, column 7", "not a text that JSON knows"),
    "graph @g(%x: f32[2]) {\n  return complex(f32, 1.0)\n}": ("line 2, column 18", "must be a number"),
    "graph @g(%x: f32[2]) {\n  return %x, " + "9" * 5000 + "\n}": ("line 2, column 14", "an integer of 5000 digits"),
    "graph @g(%x: f32[2]) {\n  return " + "[" * 5000 + "\n}": ("line 2", "nested too deeply"),
    "graph @g(%x: f32[2]) {\n  return %x\n": ("line 3, column 1", "the end of the text"),
    "graph @g(%x: f32[2]) {\n  return %x\n} §": ("line 3, column 3", "starts nothing"),
}


@pytest.mark.parametrize("text", WRONG, ids=lambda t: t.splitlines()[1].strip()[:40])
def test_the_parser_says_where_and_what(text):
    place, reason = WRONG[text]
    with pytest.raises(ParseError) as caught:
        parse_graph(text)
    assert place in str(caught.value) and reason in str(caught.value)
    line = int(place.split()[1].rstrip(","))
    assert [*text.splitlines(), ""][line - 1] in str(caught.value)
