"""shape_analysis: what it says of a value is so in every run with arguments of the examples' types, and it says enough.
"""

from __future__ import annotations

import inspect
import os

import numpy as np
import pytest

import weft
import weft.jit
from tests.jit_programs.random_programs import program
from tests.jit_programs.test_programs import PROGRAMS, draw
from weft import Tensor
from weft.jit.interpreter.code import Code
from weft.jit.program import Program
from weft.support.errors import ArgumentError
from weft.types.tensor_type import ListType, TensorType, TupleType, Type

COUNT = 60 * int(os.environ.get("WEFT_AGREE", "1"))


class Watched(Code):
    """Looks at every value that a program computes."""

    def _step(self, node):
        step = super()._step(node)
        places = [(v.type, self._place(v)) for v in node.outputs]

        def watched(registers):
            step(registers)
            for kind, place in places:
                assert holds(registers[place], kind), (node, kind, registers[place])

        return watched


def holds(value: object, kind: Type) -> bool:
    """Whether a value is what its type says of tensors."""
    if isinstance(kind, TensorType) and isinstance(value, Tensor):
        if kind.dtype is not None and kind.dtype is not value.dtype:
            return False
        return kind.dims is None or (
            len(kind.dims) == value.ndim
            and all(d is None or d == n for d, n in zip(kind.dims, value.shape, strict=True))
        )
    if isinstance(kind, ListType) and isinstance(value, list):
        return all(holds(v, kind.element) for v in value)
    if isinstance(kind, TupleType) and isinstance(value, tuple):
        return all(map(holds, value, kind.elements))
    return True


def check(scripted, examples, runs) -> weft.jit.Graph:
    """Every run is as the analysis says; the graph with its types."""
    graph = weft.jit.shape_analysis(scripted.inlined_graph, tuple(examples))
    graph.lint()
    known = graph.program
    watched = Watched(Program("f", known.parameters, known.returns, graph.ir, {}, known.captured, known.python))
    for args in runs:
        bound = scripted.__weft_program__.bind(args, {})
        try:
            watched(bound)
        except AssertionError:
            raise
        except Exception:  # a program may raise
            continue
    return graph


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_hand_written_programs(function) -> None:
    rng = np.random.default_rng(len(function.__name__))
    parameters = inspect.signature(function).parameters.values()
    runs = [[draw(p.annotation, rng) for p in parameters] for _ in range(4)]
    check(weft.jit.script(function), runs[0], runs)


def test_random_programs() -> None:
    rng = np.random.default_rng(5)
    for seed in range(COUNT):
        unit = weft.jit.CompilationUnit(program(seed))
        runs = [[weft.from_numpy(rng.normal(size=3)), float(rng.normal()), int(n)] for n in (0, 1, 3)]
        check(unit.f, runs[0], runs)


def growing(x: Tensor, n: int):
    y, z = x, x
    for i in range(n):
        y = weft.cat([y, x])
        z = z * 2 + i
    return y, z


def losing_a_dim(x: Tensor, n: int):
    y = x
    for _ in range(n):
        if y.dim() > 1:
            y = y.sum(0)
    return y


def of_integers(x: Tensor):
    return x / x, x // x, x > x, x.sum(), x.float() + 1


def two_ways(x: Tensor, n: int):
    if n > 0:
        a, b = x, x
    else:
        a, b = x.double(), x.t()
    return a, b, [a][0]


def types(function, *examples) -> list[str]:
    graph = weft.jit.shape_analysis(weft.jit.script(function).graph, examples)
    tail = graph.ir.results[0].node.args[0]
    return [str(v.type) for v in tail]


def test_what_the_loop_changes_is_open() -> None:
    assert types(growing, weft.ones(4, 3), 2) == ["f32[*, 3]", "f32[4, 3]"]
    (found,) = weft.jit.shape_analysis(weft.jit.script(losing_a_dim).graph, (weft.ones(4, 3), 2)).outputs()
    assert str(found.type()) == "f32[...]"


def test_promotion_is_the_operators() -> None:
    assert types(of_integers, weft.ones(2, dtype=weft.int64)) == [
        "f32[2]", "i64[2]", "b1[2]", "i64[]", "f32[2]"]  # fmt: skip


def test_branches_are_joined() -> None:
    assert types(two_ways, weft.ones(4, 3), 2)[:2] == ["Tensor[4, 3]", "f32[*, *]"]


def test_the_programs_own_graph_stays_as_it_was() -> None:
    scripted = weft.jit.script(growing)
    before = str(scripted.graph)
    graph = scripted.graph
    assert weft.jit.shape_analysis(graph, (weft.ones(4, 3), 2)) is graph
    assert "f32[4, 3]" in str(graph) and str(scripted.graph) == before
    assert str(weft.jit.parse_ir(str(graph))).count("f32[*, 3]") == str(graph).count("f32[*, 3]")


def resized(x: Tensor):
    y = x.clone()
    z = y[0]
    y.unsqueeze_(0)
    return y, z


def test_sizes_that_a_node_changes_in_place_are_not_told() -> None:
    assert types(resized, weft.ones(4, 3)) == ["f32[...]", "f32[...]"]


def appended(x: Tensor, items: list[Tensor]):
    mine = [x]
    mine.append(x.sum())
    items.append(x)
    return mine[0], items[0]


def test_containers_that_are_written_say_nothing() -> None:
    assert types(appended, weft.ones(4, 3), [weft.ones(4, 3)]) == ["Tensor", "Tensor"]


def test_a_wrong_count_is_refused() -> None:
    with pytest.raises(ArgumentError, match="2 parameters, there are 1 examples"):
        weft.jit.shape_analysis(weft.jit.script(growing).graph, (weft.ones(2),))
