"""Graph objects: what a program compiled to, read and matched; text that comes back; calls that are inlined."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit
from tests.compare_graphs import difference
from tests.jit_programs.test_programs import PROGRAMS
from weft.ir.parser import parse_graph
from weft.support.errors import WeftError

NAMES = [f"{f.__module__.rpartition('.')[2]}-{f.__name__}" for f in PROGRAMS]


@pytest.mark.parametrize("function", PROGRAMS, ids=NAMES)
def test_every_graph_keeps_the_rules_and_its_text_comes_back(function) -> None:
    graph = weft.jit.script(function).graph
    graph.lint()
    assert difference(parse_graph(str(graph)), graph.ir) is None
    assert str(graph.copy()) == str(graph) and graph.copy().ir is not graph.ir
    graph.inlined().lint()
    assert not graph.inlined().findAllNodes("prim::CallFunction")


UNIT = """
def helper(x, k: float):
    return x.type_as(x) * k

def main(x, y, n: int):
    z = weft.add(x, y, alpha=2)
    for i in range(n):
        z = helper(z, 0.5) + i
    if n > 3:
        z = z.sum(dim=1)
    return z, n
"""


@pytest.fixture
def graph():
    return weft.jit.CompilationUnit(UNIT).main.graph


def test_nodes_and_values(graph) -> None:
    add, loop, asked, choice, pair = graph.nodes()
    assert [n.kind() for n in graph.nodes()] == [
        "aten::add",
        "prim::Loop",
        "prim::gt",
        "prim::If",
        "prim::TupleConstruct",
    ]
    assert [v.debugName() for v in graph.inputs()] == ["x", "y", "n"] and str(graph.inputs()[2].type()) == "int"
    assert add.kind().ns() == "aten" and add.output().node() == add and add.inputs()[0] == graph.inputs()[0]
    assert add.source_range() == "<string>:6:9" and graph.outputs()[0].node() == pair
    assert [len(n.blocks()) for n in (add, loop, choice)] == [0, 1, 2] and loop.blocks()[0].inputs()[
        0
    ].debugName() == "i"
    assert asked.outputs()[0] == choice.inputs()[0] and len(choice.blocks()[0].nodes()) == 1
    assert choice.blocks()[1].outputs()[0] == loop.output()


def test_arguments_by_name(graph) -> None:
    add = graph.nodes()[0]
    assert (
        add.get("alpha") == 2
        and add.get("self") is None
        and add.is_constant("alpha")
        and add.attributes() == {} and add.inputsAt(2).node().attributes() == {"value": 2}
    )
    assert add.named_input("other") == graph.inputs()[1] and add.named_input("alpha").node().kind() == "prim::Constant"
    assert graph.findNode("aten::sum").get("dim") == [1]
    with pytest.raises(WeftError, match="no argument 'nothing'; it has self, other, alpha"):
        add.get("nothing")


@pytest.mark.parametrize(
    "schema,const,expected",
    [
        ("aten::add(Tensor self, Tensor other, *, Scalar alpha) -> Tensor", (), True),
        ("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha) -> Tensor", ("alpha",), True),
        ("aten::add(Tensor self, Tensor other, *, Scalar alpha) -> Tensor", ("other",), False),
        ("aten::add(Tensor self, Scalar other, *, Scalar alpha) -> Tensor", (), False),
        ("aten::add(Tensor self, Tensor other, *, str alpha) -> Tensor", (), False),
        ("aten::add(Tensor self, Tensor other) -> Tensor", (), False),
        ("aten::sub(Tensor self, Tensor other, *, Scalar alpha) -> Tensor", (), False),
        ("aten::add(Tensor self, Tensor other, *, Scalar alpha) -> int", (), False),
    ],
)
def test_matching_by_schema(graph, schema, const, expected) -> None:
    assert graph.nodes()[0].matches(schema, const) is expected


def test_a_set_of_schemas(graph) -> None:
    found = weft.jit.OperatorSet(["aten::relu(Tensor self) -> Tensor", "prim::gt(int a, int b) -> bool"])
    assert [found.find(n) is not None for n in graph.nodes()] == [False, False, True, False, False]


def test_calls_are_nodes_that_can_be_inlined(graph) -> None:
    assert graph.findNode("prim::CallFunction") is not None
    flat = graph.inlined()
    assert [n.kind() for n in flat.walk() if n.kind().is_aten()] == [
        "aten::add",
        "aten::type_as",
        "aten::mul",
        "aten::add",
        "aten::sum",
    ]


def test_deep_calls_of_calls_stay_small() -> None:
    depth = int(np.random.default_rng(0).integers(40, 60))
    text = "def f0(x):\n    return x + 1\n" + "".join(
        f"def f{i}(x):\n    return f{i - 1}(x) + f{i - 1}(x)\n" for i in range(1, depth)
    )
    unit = weft.jit.CompilationUnit(text)
    assert sum(len(f.graph.nodes()) for f in unit.get_functions()) == 3 * (depth - 1) + 1


def test_symbols() -> None:
    symbol = weft.jit.Symbol("aten::add")
    assert (
        symbol is weft.jit.Symbol("aten::" + "add")
        and symbol == "aten::add"
        and symbol.unqual() == "add"
        and not symbol.is_prim()
    )
    for wrong in ("add", "aten::", "a b::c", 3):
        with pytest.raises(ValueError, match="has no namespace"):
            weft.jit.Symbol(wrong)


def test_schemas_of_an_operator() -> None:
    assert any("aten::max.dim" in s for s in weft.jit.schemas("aten::max"))
    with pytest.raises(TypeError, match="no operator 'aten::nothing'"):
        weft.jit.schemas("aten::nothing")


def test_code_reads_like_python() -> None:
    unit = weft.jit.CompilationUnit(
        "def f(n: int):\n    s = 0\n    for i in range(n):\n        if i > 2:\n            s = s + i\n    return s\n"
    )
    code = unit.f.code
    space: dict = {}
    exec(code.replace("List[", "list["), space)
    for n in range(7):
        assert space["f"](n) == unit.f(n)


def test_code_names_the_tensors_from_outside() -> None:
    first, second = weft.ones(2), weft.zeros(2)

    @weft.jit.script
    def f(x):
        return x * second + first + second

    code, constants = f.code_with_constants
    assert code == f.code and "CONSTANTS.c0" in code and "CONSTANTS.c2" not in code
    assert constants.c0 is second and constants.c1 is first and set(constants.const_mapping) == {"c0", "c1"}
