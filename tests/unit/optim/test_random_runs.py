"""Random training runs (random_runs.py) against PyTorch's stored numbers (make_torch_values.py), eager and compiled."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.optim.random_runs import OPTIONS, SEEDS, train

STORED: list[list[float]] = json.loads(Path(__file__).with_name("torch_random_runs.json").read_text())["runs"]


def check(seed: int, **wrap: Any) -> None:
    name = list(OPTIONS)[seed % len(OPTIONS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (a schedule before a step without parameters)
        got = train(weft, seed, **wrap)
    rounding = 1e-6 if name in ("NAdam", "ASGD") else 1e-9  # (PyTorch keeps their products and averages in float32)
    np.testing.assert_allclose(got, STORED[seed], rtol=rounding, atol=1e-10, err_msg=f"{name}, seed {seed}")


@pytest.mark.parametrize("part", range(3))
def test_eager_runs_give_pytorchs_numbers(part: int) -> None:
    for seed in SEEDS[part::3]:
        check(seed)


def test_compiled_steps_give_pytorchs_numbers(rng: np.random.Generator) -> None:
    for seed in rng.choice(SEEDS, 3, replace=False):
        check(int(seed), wrap=weft.compile)
