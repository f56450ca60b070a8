"""Random graphs with nested prim::If and prim::Loop parse, verify, run, lose what nobody reads, differentiate,
and run natively: always NumPy's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft  # noqa: F401  (defines the operators)
from tests.agree.control import ControlProgram, draw_control
from tests.agree.width import times
from tests.compare_graphs import difference
from weft.ir.evaluate import interpret
from weft.ir.graph import Graph
from weft.ir.parser import parse_graph
from weft.ir.verifier import verify
from weft.passes.dce import dce
from weft.passes.pipeline import optimize
from weft.programs.executable import make_executable
from weft.record.differentiate import differentiate

Array = np.ndarray[Any, Any]


def sizes_of(rng: np.random.Generator) -> dict[str, int]:
    return {"s0": int(rng.integers(1, 6)), "s1": int(rng.integers(1, 4))}


def expect(program: ControlProgram, what: str, found: list[Any], expected: Any, tolerance: float = 1e-9) -> None:
    for i, (v, w) in enumerate(zip(found, expected, strict=True)):
        v = np.asarray(v)
        assert v.shape == np.shape(w), f"{what}, result {i}: {v.shape}, expected {np.shape(w)}\n{program.text}"
        assert np.allclose(v, w, rtol=tolerance, atol=tolerance * max(1, np.abs(w).max(initial=0))), (
            f"{what}, result {i}:\n{v}\nexpected\n{w}\n{program.text}"
        )


def reparsed(graph: Graph) -> Graph:
    again = parse_graph(str(graph))
    assert difference(graph, again) is None and str(again) == str(graph)
    return verify(again)


@pytest.mark.parametrize("size", [6, 16])
def test_stages_of_random_control_flow(size: int, rng: np.random.Generator) -> None:
    for _ in range(times(15)):
        program = draw_control(rng, size)
        graph = verify(parse_graph(program.text))
        stages = {
            "parsed": graph, "printed": reparsed(graph), "swept": reparsed(dce(graph)),
            "optimized": reparsed(optimize(graph)),
        }
        assert difference(dce(stages["swept"]), stages["swept"]) is None
        for _ in range(2):
            sizes = sizes_of(rng)
            inputs = program.arguments(rng, sizes)
            expected = program.truth()(*sizes.values(), *inputs)
            for name, stage in stages.items():
                expect(program, name, interpret(stage, inputs, sizes), expected)


def test_native_control_flow(rng: np.random.Generator) -> None:
    for _ in range(times(5)):
        program = draw_control(rng, 12)
        executable = make_executable(parse_graph(program.text), "llvm")
        for _ in range(3):
            sizes = sizes_of(rng)
            inputs = program.arguments(rng, sizes)
            expect(
                program, f"llvm with {sizes}", executable.run([x.copy() for x in inputs], sizes),
                program.truth()(*sizes.values(), *inputs),
            )


def test_gradients_of_random_control_flow(rng: np.random.Generator) -> None:
    for _ in range(times(8)):
        program = draw_control(rng, 8)
        graph = parse_graph(program.text)
        results = len(graph.results)
        found = verify(differentiate(graph, of=range(results)))
        swept = reparsed(optimize(found))
        sizes = sizes_of(rng)
        inputs = program.arguments(rng, sizes)
        expected = [_slopes(program, sizes, inputs, k) for k in range(len(program.params))]
        for name, stage in (("differentiated", found), ("optimized", swept)):
            expect(program, name, interpret(stage, inputs, sizes)[results:], expected, 1e-5)


def test_second_derivatives_of_random_control_flow(rng: np.random.Generator) -> None:
    """Along a random direction: the gradient of the gradients' sum against the central difference of that sum."""
    for _ in range(times(4)):
        program = draw_control(rng, 6)
        graph = parse_graph(program.text)
        results, wrt = len(graph.results), range(len(program.params))
        once = optimize(differentiate(graph, of=range(results)))
        twice = reparsed(optimize(verify(differentiate(once, range(results, len(once.results)), wrt))))
        sizes = sizes_of(rng)
        inputs = program.arguments(rng, sizes)
        ways = [np.asarray(rng.standard_normal(np.shape(inputs[k]))) for k in wrt]
        ends = []
        for sign in (1e-6, -1e-6):
            moved = [np.asarray(x + sign * way) for x, way in zip(inputs, ways, strict=False)] + inputs[len(ways) :]
            ends.append(sum(float(np.sum(g)) for g in interpret(once, moved, sizes)[results:]))
        slopes = interpret(twice, inputs, sizes)[len(once.results) :]
        found = sum(float(np.sum(s * way)) for s, way in zip(slopes, ways, strict=True))
        expect(program, "second order", [found], [(ends[0] - ends[1]) / 2e-6], 1e-4)
        native = make_executable(twice, "llvm").run([x.copy() for x in inputs], sizes)[len(once.results) :]
        expect(program, "second order, native", native, slopes)


def _slopes(program: ControlProgram, sizes: dict[str, int], inputs: list[Array], k: int) -> Array:
    """Central differences of the sum of all results by argument k."""
    step, truth = 1e-6, program.truth()
    found = np.zeros_like(inputs[k])
    for at in np.ndindex(*found.shape):
        sums = []
        for sign in (1, -1):
            moved = [x.copy() for x in inputs]
            moved[k][at] += sign * step
            sums.append(sum(float(np.sum(r)) for r in truth(*sizes.values(), *moved)))
        found[at] = (sums[0] - sums[1]) / (2 * step)
    return found
