"""Distributions that a compiled function makes of its arguments: what they answer, and the gradients for parameters and
values, are those of eager mode, for several sets of parameters and with the checks of these."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.width import times

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases import CASES, DRAWS, build  # noqa: E402

VALUES = np.load(HERE / "data" / "torch_values.npz")
# (stored samples of LKJCholesky are factors in float32 only)
NAMES = sorted(name for name in CASES if f"{name}/0/sample" in VALUES.files and name != "LKJCholesky")
ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    "log_prob": lambda d, x: d.log_prob(x), "cdf": lambda d, x: d.cdf(x), "entropy": lambda d, x: d.entropy(),
    "mean": lambda d, x: d.mean, "mode": lambda d, x: d.mode, "variance": lambda d, x: d.variance,
    "stddev": lambda d, x: d.stddev,
}


def check(name: str) -> None:
    family = getattr(weft.distributions, name)
    asked: list[str] = []

    def step(parameters: dict[str, Any], value: weft.Tensor) -> list[weft.Tensor]:
        d = family(**parameters)
        return [ANSWERS[what](d, value) for what in asked]

    compiled = weft.compile(step)
    for number in range(DRAWS):
        _, parameters = build(weft, name, number, weft.float64, requires_grad=True)
        sample = VALUES[f"{name}/{number}/sample"].tolist()
        value = weft.tensor(sample, dtype=weft.int64 if name == "Categorical" else weft.float64)
        asked[:] = [what for what in ANSWERS if f"{name}/{number}/f64/{what}" in VALUES.files]
        leaves = [p for p in parameters.values() if isinstance(p, weft.Tensor)]
        for what, want, got in zip(asked, step(parameters, value), compiled(parameters, value), strict=True):
            same(name, what, want, got)
            if want.requires_grad and bool(want.isfinite().all()):
                ours, theirs = (
                    weft.autograd.grad(out.sum(), leaves, retain_graph=True, allow_unused=True, materialize_grads=True)
                    for out in (got, want)
                )
                for gradient, expected in zip(ours, theirs, strict=True):
                    same(name, f"gradient of {what}", expected, gradient)


def same(name: str, what: str, want: weft.Tensor, got: weft.Tensor) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), 1e-7, 1e-9, err_msg=f"{name}: {what}")


@pytest.mark.parametrize("part", range(2))
def test_they_answer_what_eager_ones_do(part: int, rng: np.random.Generator) -> None:
    for name in rng.choice(NAMES, min(times(3), len(NAMES)), replace=False):
        check(str(name))
