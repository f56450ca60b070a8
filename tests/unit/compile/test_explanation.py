"""weft.explain and stages(): counts that agree with the program, stages that parse back and run to the same values."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.compare_graphs import difference
from weft.ir.evaluate import interpret
from weft.ir.graph import Graph
from weft.ir.parser import parse_graph
from weft.ir.verifier import verify

F = weft.nn.functional


def _step(rng, dtype="float32", backend="llvm"):
    w1 = weft.tensor(rng.standard_normal((4, 8)).astype(dtype), requires_grad=True)
    w2 = weft.tensor(rng.standard_normal((8, 3)).astype(dtype), requires_grad=True)

    @weft.compile(backend=backend)
    def step(x, y):
        loss = F.cross_entropy(F.gelu(x @ w1) @ w2, y)
        loss.backward()
        with weft.no_grad():
            for w in (w1, w2):
                w -= 0.1 * w.grad
                w.grad = None
        return loss

    return step


def _batch(rng, rows, dtype="float32"):
    return weft.tensor(rng.standard_normal((rows, 4)).astype(dtype)), weft.tensor(rng.integers(0, 3, rows))


def test_a_training_step_is_explained(rng):
    step = _step(rng)
    found = weft.explain(step, *_batch(rng, int(rng.integers(2, 9))))
    assert not step.entries, "explaining runs nothing and keeps nothing"
    (program,) = found.programs
    stages = dict(program.stages)
    assert list(stages) == ["captured", "opened", "optimized"]
    assert 0 < len(program.kernels) < stages["optimized"]
    assert (
        program.opaque_calls >= 5 and program.foreign == [] and program.native_segments == 1
        and program.foreign_segments == 0
    )
    assert program.arena_bytes > 0
    assert [s for s in found.state if s.endswith("updated in place")] == found.state and len(found.state) == 2
    assert any("s1 == 4" in g for g in found.size_guards)
    assert any("w1" in g for g in found.python_guards)
    text = found.details()
    for word in (f"{len(program.kernels)} kernels", "aten::gelu", "1 native segments", "state: 2"):
        assert word in text


def test_what_runs_outside_native_code_is_named(rng):
    found = weft.explain(lambda x: weft.linalg.eigvalsh(x @ x.T) + 1, weft.tensor(rng.standard_normal((3, 2))))
    assert found.programs[0].foreign_segments == 1
    assert "aten::linalg_eigh runs in NumPy" in found.details()


def test_a_module_is_explained_with_its_backward(rng):
    model = weft.compile(weft.nn.Linear(3, 2))
    x = weft.tensor(rng.standard_normal((5, 3)).astype("float32"))
    assert [p.title for p in weft.explain(model, x).programs] == ["forward", "backward"]


def test_explaining_uses_the_program_that_fits(rng):
    step = _step(rng)
    batch = _batch(rng, 5)
    step(*batch)
    weft.counters.reset()
    weft.explain(step, *batch)
    assert weft.counters.captures == 0


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_graph_stages_parse_back_and_run_to_the_same_values(backend, rng):
    step = _step(rng, "float64", backend)
    batch = _batch(rng, int(rng.integers(2, 9)), "float64")
    stages = step.stages(*batch)
    graphs = {name: g for name, g in stages.items() if isinstance(g, Graph)}
    assert list(graphs) == ["captured", "opened", "optimized"]
    first = graphs["captured"]
    symbols = dict(first.env.examples)
    known = {"arg0": batch[0].numpy(), "arg1": batch[1].numpy()}
    inputs = []
    for p in first.params:
        shape = tuple(symbols[str(d)] if not isinstance(d, int) else d for d in p.tensor_type.shape)
        made = np.array(False) if p.name.startswith("has_") else rng.standard_normal(shape)
        inputs.append(known.get(p.name, made))
    values = {}
    for name, graph in graphs.items():
        text = str(graph)
        again = parse_graph(text)
        assert str(again) == text and difference(graph, again) is None, name
        verify(again)
        values[name] = interpret(again, [np.array(x) for x in inputs], symbols)
    for name in ("opened", "optimized"):
        for a, b in zip(values[name], values["captured"], strict=False):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=name)


def test_without_arguments_the_last_program_is_explained() -> None:
    step = weft.compile(lambda x, y: x * y)
    with pytest.raises(TypeError, match="was not called yet"):
        weft.explain(step)
    step(weft.ones(3), weft.ones(3))
    weft.counters.reset()
    assert weft.explain(step).programs[0].kernels and weft.counters.captures == 0


def test_a_call_that_runs_as_written_is_told_with_its_line(rng):
    w, kept = weft.tensor(rng.standard_normal(3), requires_grad=True), weft.zeros(3, dtype=weft.float64)

    @weft.compile
    def keeps(x):
        kept.copy_(x * w)
        return x * 2

    x = weft.tensor(rng.standard_normal(3))
    found = weft.explain(keeps, x)
    (why,) = found.as_written
    assert found.programs == [] and why.startswith("test_explanation.py:") and "keep the history" in why
    keeps(x)
    title, *lines = str(weft.explain(keeps)).splitlines()
    assert title.startswith("keeps: compiled function, test_explanation.py:")
    assert lines == ["  no program, runs as it is written", "  why: 1", f"    {why}"]
    assert kept.grad_fn is not None
