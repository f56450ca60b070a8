"""Openings: a formula is evaluated for the first two nodes of a kind, and its nodes are emitted for the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand
from weft.ir.parser import parse_graph
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.packet import aten
from weft.passes.openings import Openings
from weft.passes.rebuild import Rewrite, results_of, rewrite_operators

TEXT = """
graph @f(%x: f32[s0, 4], %y: f32[s0, 4], %z: f32[4, 4]) {
  %0: f32[s0, 4] = aten::relu(%x)
  %1: f32[s0] = aten::mean(%0, [1])
  %2: f32[s0] = aten::mean(%x, [1])
  %3: f32[s0] = aten::mean(%y, [1])
  %4: f32[4] = aten::mean(%z, [1])
  %5: f32[4] = aten::mean(%z, [0])
  %6: f32[s0, 4] = aten::relu(%y)
  %7: f32[s0] = aten::mean(%6, [1])
  return %1, %2, %3, %4, %5, %7
}
"""
BRANCHES = """
graph @g(%p: bool, %x: f32[4]) {
  %0: f32[4] = prim::If(%p) {
    %1: f32[4] = aten::square(%x)
    %2: f32[4] = aten::square(%1)
    %3: f32[4] = aten::square(%2)
    yield %3
  } else {
    %4: f32[4] = aten::square(%x)
    yield %4
  }
  return %0
}
"""


def opened(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
    assert node.op.decompose is not None
    return results_of(builder, node.op.decompose(*[builder.handle(a) for a in args]))


def rewritten(graph: Graph, how: Rewrite) -> Graph:
    return rewrite_operators(graph, how, lambda op: op.decompose is not None or op is aten.square.default.op)


def test_formulas_are_evaluated_twice_for_a_kind_at_most_and_give_the_same_graph() -> None:
    graph = parse_graph(TEXT)
    calls: Counter[str] = Counter()

    def counted(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
        calls[str(node.outputs[0].type) + str(args[1])] += 1
        return opened(builder, node, args)

    repeated = rewritten(graph, Openings(counted, lambda: Builder(graph.name, graph.env)))
    assert str(repeated) == str(rewritten(graph, opened))
    assert calls == {"f32[s0](1,)": 2, "f32[4](1,)": 1, "f32[4](0,)": 1}


def test_what_hangs_on_no_operand_stands_outside_of_blocks() -> None:
    graph = parse_graph(BRANCHES)

    def shifted(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return results_of(builder, aten.sub(builder.handle(args[0]), aten.mul(aten.ones((4,)), 2.0)))

    direct = rewritten(graph, shifted)
    assert [n.op.name for n in direct.nodes] == ["aten::ones", "aten::mul.Tensor", "prim::If"]
    assert str(rewritten(graph, Openings(shifted, lambda: Builder(graph.name, graph.env)))) == str(direct)


def test_formulas_of_users_are_evaluated_for_each_node() -> None:
    calls = []

    def twice(x: Any) -> Any:
        calls.append(x)
        return aten.add(x, x)

    define("lab::twice_of(Tensor self) -> Tensor", "The tensor and itself.", type=lambda self: self, decompose=twice,
           vjp=NOT_DIFFERENTIABLE, public=())
    graph = parse_graph("graph @f(%x: f32[4]) {\n" + "".join(
        f"  %{i}: f32[4] = lab::twice_of(%{i - 1 if i else 'x'})\n" for i in range(5)) + "  return %4\n}")
    after = rewritten(graph, Openings(opened, lambda: Builder(graph.name, graph.env)))
    assert len(calls) == 5 and [n.op.name for n in after.nodes] == ["aten::add.Tensor"] * 5
