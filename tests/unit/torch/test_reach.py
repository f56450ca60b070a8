"""./dev reach: its list can be read, one model runs as listed ones do, and numbers that differ are told."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def reach(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("reach")


def test_each_line_of_the_list_is_python(reach: Any) -> None:
    listed = reach.packages()
    assert len(listed) > 40 and all(package.models and package.requires for package in listed)
    for package in listed:
        ast.parse(package.setup)
        assert len({model.name for model in package.models}) == len(package.models)
        for model in package.models:
            ast.parse(model.made, mode="eval")
            ast.parse(f"({model.inputs})", mode="eval")


def test_numbers_that_differ(reach: Any, rng: np.random.Generator) -> None:
    a, limits = rng.standard_normal((3, 4)), reach.LIMITS["float64"]
    assert reach.difference("output 0", a, a * (1 + 1e-7), limits) == ""
    assert "differs by" in reach.difference("output 0", a, a * 1.01, limits)
    assert "size" in reach.difference("output 0", a, a[:2], limits)
    assert reach.difference("gradient w", np.array([np.nan]), np.array([1.0]), limits) != ""


def test_a_model_on_weft(reach: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reach.ini").write_text(
        "[made]\nrequires = nothing\nsetup =\n    half = lambda x: x / 2\nmodels =\n"
        "    layer: nn.Sequential(nn.Linear(3, 2), nn.Tanh()) <- half(randn(4, 3))\n"
        "    absent: torch.nn.Lineer(3) <- randn(3)\n"
    )
    for name in ("reach_case.py", "reach_list.py"):
        (tmp_path / name).write_text((SCRIPTS / name).read_text())
    monkeypatch.setattr(reach, "CASE", tmp_path / "reach_case.py")
    made = reach.Package("made", (), (), "", (reach.Model("layer", "", "", "float64"),
                                              reach.Model("absent", "", "", "float64")), ())
    options = reach.parsed(["--env", str(tmp_path)])
    layer, absent = reach.run_side("weft", [sys.executable, "-m", "weft.torch"], made, tmp_path, options)
    assert layer["ok"] and not absent["ok"] and "near: Linear" in absent["error"], json.dumps([layer, absent])
    with np.load(tmp_path / "layer.weights.npz") as weights, np.load(tmp_path / "layer.weft.npz") as numbers:
        x = np.random.RandomState(sum(map(ord, "layer"))).standard_normal((4, 3)) / 2
        y = np.tanh(x @ weights["0.weight"].T + weights["0.bias"])
        np.testing.assert_allclose(numbers["output 0"], y, rtol=1e-12)
        np.testing.assert_allclose(
            numbers["gradient 0.bias"], (2 * y * (1 - y * y) / y.size).sum(0), rtol=1e-10, atol=1e-12
        )
        assert numbers["loss 2"] < numbers["loss 0"]
    assert subprocess.run(
        [sys.executable, str(SCRIPTS / "reach.py"), "--only", "einops", "--list"], capture_output=True, text=True
    ).stdout.startswith("einops")
