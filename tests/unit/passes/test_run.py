"""Running passes under the knobs: what is printed, checked, replaced from a folder, and limited by fuel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.graph import Graph
from weft.ir.parser import parse_graph
from weft.passes.pipeline import optimize
from weft.passes.run import Run
from weft.support.errors import VerifyError

TEXT = """
graph @f(%x: f64[3, 4]) {
  %a: f64[3, 4] = aten::exp(%x)
  %unused: f64[3, 4] = aten::sin(%x)
  %y: f64[3, 4] = aten::sigmoid(%a)
  return %y
}
"""
CHANGED = TEXT.replace("aten::exp", "aten::log")


def without_last(graph: Graph) -> Graph:
    return parse_graph(CHANGED)


def test_a_pass_that_changes_a_value_is_found() -> None:
    graph = parse_graph(TEXT)
    assert Run().apply("without_last", without_last, graph) is not graph
    with weft.knobs(check=2), pytest.raises(VerifyError, match="the pass without_last changes result 0"):
        Run().apply("without_last", without_last, graph)


def test_the_compilers_own_passes_keep_values(rng: np.random.Generator) -> None:
    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.GELU(), weft.nn.LayerNorm(4))
    optimizer = weft.optim.Adam(model.parameters())

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = weft.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    compiled = weft.compile(step)
    with weft.knobs(check=2, backend="llvm"):
        rows = int(rng.integers(2, 9))
        assert np.isfinite(compiled(weft.randn(rows, 3), weft.randint(0, 2, (rows,))).item())


def test_a_loop_that_may_not_end_is_not_run() -> None:
    with weft.knobs(check=2):
        compiled = weft.compile(lambda x: weft.while_loop(lambda x: (x > -1).all(), lambda x: (x * 0.5,), (x,)))
        assert compiled(weft.full((2,), -3.0))[0].tolist() == [-3.0, -3.0]  # drawn inputs are positive: halved for ever


def test_fuel_limits_the_passes_that_may_be_left_out() -> None:
    graph = parse_graph(TEXT)
    full, none = Run(), Run()
    assert len(optimize(graph, full).nodes) == 2
    with weft.knobs(fuel=0):
        assert len(optimize(graph, none).nodes) == 3
    assert sum(r.changed for r in full.reports) > sum(r.changed for r in none.reports)


def test_fuel_still_compiles(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.normal(size=(3, 4)))
    expected = x.softmax(-1)[:, :2].sum()
    for fuel in range(3):
        with weft.knobs(fuel=fuel):
            compiled = weft.compile(lambda x: x.softmax(-1)[:, :2].sum())
            assert compiled(x).item() == pytest.approx(expected.item())


def test_an_edited_stage_takes_the_place_of_the_computed_one(tmp_path: Path) -> None:
    x = weft.ones(3, 4, dtype=weft.float64)
    with weft.knobs(dump=str(tmp_path)):
        plain = weft.compile(lambda x: x.exp().sum())
        plain(x)
    (stage,) = tmp_path.glob("*.optimized.ir")
    stage.write_text(stage.read_text().replace("aten::exp", "aten::neg"))
    for other in set(tmp_path.glob("*.ir")) - {stage}:
        other.unlink()
    with weft.knobs(override=str(tmp_path)):
        assert weft.compile(lambda x: x.exp().sum())(x).item() == -12
    assert weft.compile(lambda x: x.exp().sum())(x).item() == pytest.approx(12 * np.e)


@pytest.mark.parametrize("word", ["captured", "opened", "optimized", "nests", "llvm", "passes"])
def test_debug_prints_what_it_names(word: str, capfd: pytest.CaptureFixture[str]) -> None:
    with weft.knobs(debug=word):
        weft.compile(lambda x: x.softmax(-1).exp())(weft.ones(3))
    printed = capfd.readouterr().err
    expected = {"nests": "exp", "llvm": "define", "captured": "softmax(%arg0", "passes": "after decompose"}.get(
        word, "graph @"
    )
    assert expected in printed


def test_the_first_nan_is_found() -> None:
    def step(x: Any) -> Any:
        y = x - 1
        z = y.log()
        return (z * 2).sum()

    with weft.knobs(debug="nan"):
        compiled = weft.compile(step)
        assert compiled(weft.full((3,), 2.0)).item() == 0
        with pytest.raises(RuntimeError, match=r"test_run\.py:\d+: aten::log gives NaN"):
            compiled(weft.zeros(3))
        assert np.isnan(compiled(weft.full((3,), float("nan"))).item())  # it came in: no node made it


def test_a_log_of_an_unknown_pass_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    graph = parse_graph(TEXT)
    with weft.knobs(log="dce"):
        optimize(graph)
    assert "after dce:" in capsys.readouterr().err
    with weft.knobs(log="dce,scater_sums"), pytest.raises(ValueError, match=r"no pass 'scater_sums'; .* scatter_sums"):
        optimize(graph)
    with weft.knobs(log="group"), pytest.raises(ValueError, match="WEFT_LOG: there is no pass 'group'"):
        weft.compile(lambda x: x.exp() + 1)(weft.ones(3))
