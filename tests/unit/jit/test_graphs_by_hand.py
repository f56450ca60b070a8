"""Graphs that users build node by node, with the blocks of prim::If and prim::Loop."""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft.support.errors import WeftError

X = weft.tensor([-1.0, 2.0])


@pytest.fixture
def graph():
    return weft.jit.parse_ir("graph(%x : Tensor, %n : int):\n  return (%x)\n")


def run(graph, *args):
    graph.lint()
    assert str(weft.jit.parse_ir(str(graph))) == str(graph) and str(graph.copy()) == str(graph)
    return weft.jit.create_function_from_graph("f", graph)(*args)


def branch(graph, names):
    """prim::If with one operator on the first parameter in each block."""
    x, n = graph.inputs()
    node = graph.create("prim::If", [graph.insert("aten::gt", [n, 3])])
    for name in names:
        block = node.addBlock()
        graph.setInsertPoint(block)
        block.registerOutput(graph.insert(name, [x]))
    graph.setInsertPoint(graph.block())
    return graph.insertNode(node)


def test_branches(graph) -> None:
    node = branch(graph, ("aten::relu", "aten::neg"))
    first, second = node.blocks()
    assert first.owningNode() == node and graph.block().owningNode() is None
    assert node.owningBlock() == graph.block() and first.nodes()[0].owningBlock() == first
    assert str(node.output().type()) == "Tensor" and second.returnNode().inputs() == second.outputs()
    graph.eraseOutput(0)
    graph.registerOutput(node.output())
    assert weft.equal(run(graph, X, 4), X.relu()) and weft.equal(run(graph, X, 3), -X)


def test_results_are_of_the_types_of_both_blocks(graph) -> None:
    _, n = graph.inputs()
    node = graph.insertNode(graph.create("prim::If", [graph.insert("aten::gt", [n, 3])], 0))
    for value in (1, None):
        node.addBlock().registerOutput(graph.insertConstant(value))
    out = node.addOutput()
    assert str(out.type()) == "int?" and graph.registerOutput(out) == 1
    assert run(graph, X, 4)[1] == 1 and run(graph, X, 3)[1] is None


def test_a_loop_with_a_branch_within(graph) -> None:
    x, n = graph.inputs()
    loop = graph.insertNode(graph.create("prim::Loop", [n, True, x]))
    body = loop.addBlock()
    i, y = body.addInputToBlock("i"), body.addInputToBlock("y")
    assert [str(v.type()) for v in (i, y)] == ["int", "Tensor"] and y.node() == body.paramNode()
    graph.setInsertPoint(body)
    inner = graph.insertNode(graph.create("prim::If", [graph.insert("aten::eq", [i, 1])]))
    for name in ("aten::mul", "aten::add"):
        block = inner.addBlock()
        graph.setInsertPoint(block)
        block.registerOutput(graph.insert(name, [y, i]))
    body.registerOutput(graph.insertConstant(True))
    body.registerOutput(inner.output())
    graph.eraseOutput(0)
    graph.registerOutput(loop.output())
    for steps in (0, 1, 4):
        expected = X
        for k in range(steps):
            expected = expected * k if k == 1 else expected + k
        assert weft.equal(run(graph, X, steps), expected)
    leaf = X.clone().requires_grad_()
    run(graph, leaf, 3).sum().backward()
    assert leaf.grad.tolist() == [1.0, 1.0]


def test_carried_values_and_elements_are_added(graph) -> None:
    x, n = graph.inputs()
    loop = graph.insertNode(graph.create("prim::Loop", [n, True]))
    loop.addInput(graph.insertConstant(0))
    total = loop.addOutput()
    body = loop.addBlock()
    i, before = body.addInputToBlock(), body.addInputToBlock()
    graph.setInsertPoint(body)
    body.registerOutput(graph.insertConstant(True))
    body.registerOutput(graph.insert("aten::add", [before, i]))
    graph.setInsertPoint(graph.block())
    made = graph.insertNode(graph.create("prim::ListConstruct", [total]))
    assert str(total.type()) == "int"
    made.addInput(n)
    graph.registerOutput(made.output())
    assert run(graph, X, 5)[1] == [10, 5]
    with pytest.raises(WeftError, match="aten::relu takes no list"):
        graph.create("aten::relu", [x]).addInput(n)


def test_blocks_and_results_are_taken_away(graph) -> None:
    node = branch(graph, ("aten::relu", "aten::neg", "aten::abs"))
    with pytest.raises(WeftError, match="has 3 blocks, should have 2"):
        graph.lint()
    node.eraseBlock(1)
    graph.lint()
    with pytest.raises(WeftError, match="yields 1 values"):
        node.eraseOutput(0)
        graph.lint()
    for block in node.blocks():
        block.eraseOutput(0)
    graph.lint()
    graph.registerOutput(node.addOutput())
    with pytest.raises(WeftError, match="result 0 of prim::If is used"):
        node.eraseOutput(0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda g: g.create("prim::If", []), "takes a condition, 0 inputs"),
        (lambda g: g.create("prim::Loop", [3]), "takes a number of steps, a condition"),
        (lambda g: (g.insertNode(g.create("prim::Loop", [3, True])), g.lint()), "has 0 blocks, should have 1"),
        (lambda g: g.create("prim::If", [True]).owningBlock(), "is no node of this graph"),
    ],
)
def test_what_cannot_be_done(graph, change, problem) -> None:
    with pytest.raises(WeftError, match=problem):
        change(graph)


def test_values_of_one_block_are_not_seen_in_the_other(graph) -> None:
    node = branch(graph, ("aten::relu", "aten::neg"))
    first, second = node.blocks()
    second.eraseOutput(0)
    second.registerOutput(first.nodes()[0].output())
    with pytest.raises(WeftError, match="outside of the block that defines it"):
        graph.lint()
