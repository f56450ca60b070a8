"""The verifier refuses graphs that break a rule, and shows where."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Value
from weft.ir.parser import parse_graph
from weft.ir.verifier import verify
from weft.ops.op import OPS
from weft.passes.pipeline import optimize
from weft.passes.run import Run
from weft.support.errors import VerifyError
from weft.support.knobs import knobs
from weft.types import dtype as dt
from weft.types.tensor_type import INT, tensor_type

F2 = tensor_type(dt.float32, (2,))
RELU = OPS["aten::relu"]


def refused(graph, *words):
    with pytest.raises(VerifyError) as caught:
        verify(graph, "after a pass")
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert "after a pass" in str(caught.value)


BODY = "graph @g(%x: f32[2, 3], %p: b1[], %n: int) {{\n{}\n  return %y\n}}"
_LOOP = "  %y: f32[2, 3] = prim::Loop({}, condition=True, carried=[%x], xs=[{}]) (%i: int{}) {{\n "
WRONG = {
    "  %y: f32[3] = aten::relu(%x)": ("aten::relu results in f32[3], its type rule gives f32[2, 3]",),
    "  %y: f64[2, 3] = aten::relu(%x)": ("f64[2, 3]",),
    "  %y: f32[2, 2] = aten::mm(%x, %x)": ("aten::mm refuses its arguments",),
    "  %y: f32[2] = aten::sum(%x, dim=1)": ("must be a list",),
    "  %y: f32[2, 3] = aten::relu(3)": ("'self' must be Tensor",),
    "  %y: f32[2, 3] = aten::transpose.int(%x, dim0=%x, dim1=0)": ("must be int",),
    "  %y: f32[2, 3], %z: f32[2] = aten::relu(%x)": ("has 2 results, its type rule gives 1",),
    "  %y: f32[2, 3] = aten::relu(%x) {\n yield\n}": ("has 1 blocks, should have 0",),
    "  %y: f32[2, 3] = prim::If(%p) {\n yield %x\n}": ("1 blocks, should have 2",),
    "  %y: f32[2, 3] = prim::If(%p) {\n yield %x\n} else {\n yield\n}": ("second block", "yields 0"),
    "  %y: f32[2, 3] = prim::If(%p) {\n yield %x\n} else {\n yield %p\n}": ("second block yields is b1[]",),
    "  %y: f32[2, 3] = prim::If(%x) {\n yield %x\n} else {\n yield %x\n}": ("a condition is f32[2, 3]",),
    _LOOP.format("%n", "", "") + "yield True, %x\n}": ("parameters",),
    _LOOP.format("%n", "", ", %c: f32[2, 3]") + "yield True, %p\n}": ("carried value 0 that the block yields is b1[]",),
    _LOOP.format("%n", "%p", ", %c: f32[2, 3], %e: b1[]") + "yield True, %x\n}": ("at least one dim",),
    _LOOP.format("%x", "", ", %c: f32[2, 3]") + "yield True, %x\n}": ("trip is f32[2, 3]",),
}


@pytest.mark.parametrize("line", WRONG, ids=lambda s: s.strip()[:50])
def test_rules(line):
    refused(parse_graph(BODY.format(line)), *WRONG[line])


def test_the_offender_is_marked_among_about_ten_lines():
    lines = "\n".join(f"  %{i}: f32[2, 3] = aten::relu(%x)" for i in range(30))
    graph = parse_graph(BODY.format(lines + "\n  %y: f32[5] = aten::relu(%29)"))
    with pytest.raises(VerifyError) as caught:
        verify(graph)
    shown = str(caught.value).splitlines()[1:]
    assert len(shown) == 10
    assert [line for line in shown if line.startswith(">")] == [">   32 |   %y: f32[5] = aten::relu(%29)"]


def test_scoping():
    x = Value(F2, "x")
    first, second = Node(RELU, (x,), (F2,)), None
    second = Node(RELU, (first.output,), (F2,))
    refused(Graph("g", Block((x,), (second, first), (second.output,))), "not defined before it is used")
    refused(Graph("g", Block((x,), (first, first), ())), "defined twice")
    refused(Graph("g", Block((x, x), (), ())), "defined twice")
    refused(Graph("g", Block((x,), (), (first.output,))), "not defined before it is used")


def test_a_value_of_an_inner_block_stays_inside():
    b = Builder("g")
    p, x = b.param(tensor_type(dt.bool_, ()), "p"), b.param(F2, "x")
    with b.inner() as inner:
        hidden = inner.emit(RELU, (x,)).output
        block = inner.block([hidden])
    with b.inner() as inner:
        other = inner.block([x])
    b.emit_raw(OPS["prim::If"], (p,), (F2,), (block, other))
    verify(b.graph([x]))
    refused(b.graph([hidden]), "outside of the block")


@pytest.mark.parametrize(
    "writes, words",
    [(((1, 0),), "1 results"), (((0, 5),), "5"), (((0, 0), (0, 0)), "twice"), (((0, 1),), "is written to")],
)
def test_writes(writes, words):
    b = Builder("g")
    x = b.param(F2, "x")
    b.param(INT, "n")
    refused(b.graph([x], writes), words)


def test_looking_records_no_guard():
    graph = parse_graph(
        "graph @g(%x: f32[s0], %y: f32[s1]) {\n  example s0 = 3, s1 = 3\n  %z: f32[s0] = aten::add.Tensor(%x, %y)\n"
        "  return %z\n}"
    )
    verify(graph)
    assert not graph.env.guards


def test_every_pass_is_verified_when_asked():
    @weft.compile(backend="interpret")
    def f(x):
        return weft.softmax(x, -1).sum()

    f(weft.tensor(np.ones((2, 3))))
    with knobs(check=1):
        optimize(f.entries[0].graph, Run())
