"""weft.debug.compare and bisect, with miscompiles that are planted: in a pass, in a kernel's lowering, in a capture."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.codegen.lower import reduce as reductions
from weft.debug.state import State
from weft.ir.graph import Graph
from weft.ir.parser import parse_graph
from weft.passes import pipeline

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def no_cache() -> Iterator[None]:
    """Wrong code must not be kept for others."""
    with weft.knobs(cache="off"):
        yield


def replacing(old: str, new: str) -> Callable[[Graph], Graph]:
    """A pass that puts one operator in the place of another."""

    def wrong(graph: Graph) -> Graph:
        text = str(graph)
        if old not in text:
            return graph
        return Graph(graph.name, parse_graph(text.replace(old, new)).block, graph.env, graph.writes)

    return wrong


def training(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A step with dropout and an optimizer, how often it was called, and arguments."""
    width = int(rng.integers(3, 7))
    model = weft.nn.Sequential(
        weft.nn.Linear(width, 5), weft.nn.Tanh(), weft.nn.Dropout(0.25), weft.nn.BatchNorm1d(5), weft.nn.Linear(5, 2)
    )
    opt = weft.optim.Adam(model.parameters(), lr=0.01)
    calls = [0]
    factor = float(rng.uniform(0.5, 2.0))  # no other program has the same graph, which wrong code would be shared with

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        calls[0] += 1
        loss = (model(x).cos() * y * factor).sum()
        loss.backward()
        opt.step()
        return loss

    n = int(rng.integers(4, 9))
    x, y = (weft.from_numpy(rng.standard_normal((n, w)).astype(np.float32)) for w in (width, 2))
    return step, calls, (x, y)


@pytest.mark.parametrize("kind", ["plain", "compiled", "split"])
def test_what_agrees_is_left_as_eager_leaves_it(kind: str, rng: np.random.Generator) -> None:
    step, calls, args = training(rng)
    function = {"plain": step, "compiled": weft.compile(step), "split": weft.compile(step, split=True)}[kind]
    state = State(step, (args, {}))
    seed = weft.get_rng_state()
    for number in (1, 2):
        told = weft.debug.compare(function)(*args)
        assert told and not told.differences and told.operators > 20, str(told)
        assert calls == [number]  # the other call was taken back
        assert "grad of 0.weight" in state.now() and "exp_avg of 0.weight" in state.now()
    after = state.now()
    state.put_back()
    weft.set_rng_state(seed)
    assert calls == [0]
    step(*args), step(*args)
    for name, value in state.now().items():
        np.testing.assert_array_equal(value, after[name], err_msg=name)


def test_a_wrong_pass_is_named_with_the_line_and_repeated(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    step, _, args = training(rng)
    monkeypatch.setattr(pipeline, "scatter_sums", replacing("aten::cos(", "aten::sin("))
    compiled = weft.compile(step)
    told = weft.debug.compare(compiled)(*args)
    line = f"{Path(__file__).name}:{step.__code__.co_firstlineno + 3}"
    assert not told and told.fault == "code" and (told.operator, told.line) == ("aten::cos", line)
    assert told.first is not None and told.first.absolute > 1e-3 and told.first.ulp > 1e3
    assert "result" in told.differences and len(str(told).splitlines()) < 12 and line in str(told)
    before = State(step, (args, {})).now()
    culprit = weft.debug.bisect(compiled, *args, script=tmp_path / "again.py")
    assert culprit and culprit.stage == "scatter_sums" and culprit.line == line and culprit.operator == "aten::cos"
    assert culprit.graph is not None and len(culprit.graph.nodes) == 1
    for name, value in State(step, (args, {})).now().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    text = (tmp_path / "again.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 13
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(tmp_path / "again.py"))
    assert left.value.code == 1
    done = subprocess.run(  # there the pass is right
        [sys.executable, str(tmp_path / "again.py")], env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True, timeout=300,
    )
    assert done.returncode == 0 and "scatter_sums: the values are right" in done.stdout, done.stderr


def test_a_wrong_kernel_is_named(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = reductions.Reduction.combine.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(
        reductions.Reduction, "combine", property(lambda r: {"max": "min"}.get(right(r), right(r)))
    )
    n, factor = int(rng.integers(3, 9)), float(rng.uniform(0.5, 2.0))

    def f(x: Any) -> Any:
        y = x.exp()
        z = y.amax(-1)
        return z * factor

    x = weft.from_numpy(rng.standard_normal((4, n)))
    told = weft.debug.compare(f)(x)
    assert not told and told.fault == "code" and told.operator == "aten::amax", str(told)
    culprit = weft.debug.bisect(f, x, script=tmp_path / "again.py")
    assert culprit.stage == "code generation" and culprit.operator == "aten::amax" and culprit.kernel
    assert culprit.line == f"{Path(__file__).name}:{f.__code__.co_firstlineno + 2}"
    with pytest.raises(SystemExit):
        runpy.run_path(str(tmp_path / "again.py"))


def test_what_a_capture_leaves_out_is_named(rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        z = y.exp() * (1.0 if weft.compiler.is_compiling() else 1.5)
        return z.sum()

    x = weft.from_numpy(rng.standard_normal(int(rng.integers(2, 9))))
    told = weft.debug.compare(f)(x)
    assert not told and told.fault == "capture" and told.operator.startswith("aten::mul")
    assert told.line == f"{Path(__file__).name}:{f.__code__.co_firstlineno + 2}"
    assert not weft.debug.bisect(f, x)


def test_programs_that_run_by_themselves(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    values = rng.standard_normal(5)
    assert weft.debug.compare(lambda x: x.cos().exp())(weft.from_numpy(values).to("lazy"))
    monkeypatch.setattr(pipeline, "scatter_sums", replacing("aten::cos(", "aten::sin("))

    def f(x: Any) -> Any:
        return x.cos().exp() + 0.25

    told = weft.debug.compare(f)(weft.from_numpy(values).to("lazy"))
    assert told.operator == "aten::cos" and told.line == f"{Path(__file__).name}:{f.__code__.co_firstlineno + 1}"
    scripted = weft.jit.script(long_script)
    for _ in range(3):
        scripted(weft.from_numpy(values))
    told = weft.debug.compare(scripted)(weft.from_numpy(values))
    assert told.fault == "code" and told.line == f"{Path(__file__).name}:{long_script.__code__.co_firstlineno + 2}"


def long_script(x: weft.Tensor) -> weft.Tensor:
    y = x
    for _ in range(30):
        y = y.cos() * 1.5 - x
    return y


def test_tolerances_are_the_users(rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        return x + (0.0 if weft.compiler.is_compiling() else 1e-3)

    x = weft.from_numpy(rng.uniform(0.5, 1.0, 6))
    assert not weft.debug.compare(f)(x)
    assert weft.debug.compare(f, atol=2e-3)(x)
    assert not weft.debug.compare(f, rtol=1e-4)(x)


def test_an_unknown_stage_is_refused() -> None:
    text = "graph @f(%x: f64[3]) {\n  %y: f64[3] = aten::exp(%x)\n  return %y\n}"
    weft.debug.repeat("code generation", text)
    weft.debug.repeat("dce", text, [("float64", [1.0, 2.0, 3.0])])
    with pytest.raises(ValueError, match=r"no pass 'dec'; .* \(did you mean dce\?\)"):
        weft.debug.repeat("dec", text)
