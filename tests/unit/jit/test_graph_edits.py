"""Graphs that users read step by step and change: nodes made, put in, moved, taken out, exchanged."""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft.support.errors import WeftError

TEXT = """
graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::mul(%x, %y)
  %b : Tensor = aten::relu(%a)
  return (%b)
"""


@pytest.fixture
def graph():
    return weft.jit.parse_ir(TEXT)


def run(graph, *args):
    graph.lint()
    return weft.jit.create_function_from_graph("f", graph)(*args)


X, Y = weft.tensor([1.0, -2.0]), weft.tensor([3.0, 4.0])


def test_next_goes_through_what_a_graph_has(graph) -> None:
    inputs = graph.inputs()
    x = next(inputs)
    assert [v.debugName() for v in (x, *inputs)] == ["x", "y"] and len(graph.inputs()) == 2
    assert next(graph.outputs()).node().kind() == "aten::relu"
    nodes = graph.nodes()
    assert [next(nodes).kind(), next(nodes).kind(), next(nodes, None)] == ["aten::mul", "aten::relu", None]


def test_inputs_results_and_uses(graph) -> None:
    mul, relu = graph.nodes()
    assert mul.inputsSize() == 2 and mul.outputsSize() == 1 and mul.inputsAt(1) == graph.inputs()[1]
    assert relu.input() == mul.output() == relu.inputsAt(0) and relu.output() == graph.outputs()[0]
    with pytest.raises(WeftError, match="aten::mul has 2 inputs"):
        mul.input()
    assert [(u.user.kind(), u.offset) for u in graph.inputs()[1].uses()] == [("aten::mul", 1)]
    assert [u.user.kind() for u in relu.output().uses()] == ["prim::Return"] and relu.output().toIValue() is None
    assert graph.inputs()[0].node() == graph.param_node() and graph.param_node().outputs() == graph.inputs()
    assert graph.return_node().inputs() == graph.outputs() and graph.block().paramNode().kind() == "prim::Param"


def test_attributes_have_kinds(graph) -> None:
    node = graph.create("aten::flip", [graph.inputs()[0], [0, 1]])
    assert node.attributeNames() == [] and not node.hasAttribute("dims")  # it is an input, as a prim::Constant
    held = node.inputsAt(1).node()
    assert held.attributeNames() == ["value"] and held.hasAttribute("value") and held.kindOf("value") == "is"
    assert node.kindOf("dims") == "is"
    assert graph.create("aten::add", [graph.inputs()[0], 1.5]).kindOf("other") == "f"


def test_nodes_are_put_in_and_exchanged(graph) -> None:
    mul, relu = graph.nodes()
    made = graph.create("aten::sigmoid", [mul.output()])
    made.insertAfter(mul)
    relu.replaceInputWith(mul.output(), made.output())
    assert weft.equal(run(graph, X, Y), weft.sigmoid(X * Y))
    relu.output().replaceAllUsesWith(made.output())
    relu.destroy()
    assert [n.kind() for n in graph.nodes()] == ["aten::mul", "aten::sigmoid"]
    assert weft.equal(run(graph, X, Y), weft.sigmoid(X * Y))
    mul.replaceInput(1, graph.inputs()[0])
    graph.eraseInput(1)
    assert weft.equal(run(graph, X), weft.sigmoid(X * X))


def test_constants_numbers_inputs_and_results(graph) -> None:
    mul, relu = graph.nodes()
    n = graph.addInput("n", weft.types.tensor_type.INT)
    graph.setInsertPoint(relu)
    doubled = graph.insert("aten::mul", [n, graph.insertConstant(2)])
    assert str(doubled.type()) == "int" and doubled.node().kind() == "prim::mul"
    graph.insertNode(graph.create("aten::add_", [mul.output(), doubled]))
    graph.setInsertPoint(graph.block())
    graph.registerOutput(graph.insert("aten::sum", [relu.output(), [0], True]))
    a, b = run(graph, X, Y, 5)
    assert weft.equal(a, (X * Y + 10).relu()) and weft.equal(b, a.sum(0, keepdim=True))
    graph.eraseOutput(0)
    assert weft.equal(run(graph, X, Y, 5), b)


def test_nodes_move(graph) -> None:
    mul, _ = graph.nodes()
    made = graph.prependNode(graph.create("aten::neg", [graph.inputs()[0]]))
    made.moveAfter(mul)
    assert [n.kind() for n in graph.nodes()] == ["aten::mul", "aten::neg", "aten::relu"]
    made.moveBefore(mul)
    mul.replaceInputWith(graph.inputs()[0], made.output())
    assert weft.equal(run(graph, X, Y), (-X * Y).relu())
    made.moveAfter(mul)
    with pytest.raises(WeftError, match=r"before|defined"):
        graph.lint()


def test_a_program_does_not_see_what_is_done_to_its_graph() -> None:
    @weft.jit.script
    def f(x, n: int):
        for i in range(n):
            x = x.relu() + i
        return x

    graph = f.graph
    loop = graph.findNode("prim::Loop")
    inner = loop.findNode("aten::relu")
    made = graph.create("aten::neg", [inner.input()])
    made.insertBefore(inner)
    inner.replaceAllUsesWith(made)
    inner.destroy()
    assert weft.equal(run(graph, X, 2), X + 1) and weft.equal(f(X, 2), X.relu().relu() + 1)
    assert f.graph.findNode("aten::relu") is not None and len(loop.findAllNodes("aten::neg")) == 1


@pytest.mark.parametrize(
    "change,problem",
    [
        (lambda g: g.create("aten::nothing", [g.inputs()[0]]), "no operator aten::nothing"),
        (lambda g: g.create("aten::relu", [g.inputs()[0], 1, 2]), "takes 1 arguments"),
        (lambda g: g.nodes()[0].destroy(), "aten::relu still uses a result of aten::mul"),
        (lambda g: g.eraseInput(0), "%x is used"),
        (lambda g: g.insertNode(g.nodes()[0]), "stands in the graph"),
        (lambda g: g.nodes()[0].replaceInput(7, g.inputs()[0]), "out of range"),
        (lambda g: g.nodes()[0].moveAfter(g.create("aten::neg", [g.inputs()[0]])), "is no node of this graph"),
    ],
)
def test_what_cannot_be_done(graph, change, problem) -> None:
    with pytest.raises((WeftError, IndexError), match=problem):
        change(graph)


def test_the_graph_of_a_plan_cannot_be_changed() -> None:
    @weft.jit.script
    def f(x):
        return (x * 2).tanh() + x

    f(X)
    plan = weft.jit.last_executed_plan(f)
    with pytest.raises(WeftError, match=r"graph\.copy\(\)"):
        plan.graph.create("aten::relu", [plan.graph.inputs()[0]])
    assert plan.graph.copy().create("aten::relu", [plan.graph.inputs()[0]]).kind() == "aten::relu"
