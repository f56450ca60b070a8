"""In-place random operators draw anew at every call of a program, and branches draw from where eager
mode's one branch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

STATE = weft.zeros(3)


def _in_a_view(x: weft.Tensor) -> Any:
    y = x.clone()
    y[0].uniform_()
    y[:, 1].normal_()
    return y


METHODS = (
    "uniform_()", "uniform_(-2, 3)", "normal_(1, 2)", "bernoulli_(0.3)", "bernoulli_(x.sigmoid())", "exponential_(2.0)",
    "cauchy_()", "geometric_(0.5)", "log_normal_()", "random_()", "random_(5)", "random_(2, 9)",
)
PROGRAMS: dict[str, Callable[[weft.Tensor], Any]] = {
    **{name: eval(f"lambda x: x.clone().{name}") for name in METHODS},
    "a view": _in_a_view,
    "state": lambda x: STATE.uniform_().clone(),
    "a module made inside": lambda x: weft.nn.Linear(4, 2)(x).detach(),
    "initialisation": lambda x: weft.nn.init.trunc_normal_(weft.empty(3, 4)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_call_draws_what_eager_mode_draws(name: str, rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((3, 4)).astype(np.float32))
    logs = []
    for run in (PROGRAMS[name], weft.compile(PROGRAMS[name])):
        weft.manual_seed(11)
        logs.append([(run(x).numpy().copy(), weft.rand(2).numpy()) for _ in range(3)])
    for eager, captured in zip(*logs, strict=True):
        np.testing.assert_allclose(captured[0], eager[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(captured[1], eager[1])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branches_that_draw_alike(sign: float) -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        return weft.cond(x.sum() > 0, lambda: weft.rand(3), lambda: weft.randn(3) * 2 if False else weft.rand(3) + 1)

    logs = []
    for run in (step, weft.compile(step)):
        weft.manual_seed(4)
        logs.append([run(weft.tensor([sign])).tolist() + weft.rand(1).tolist() for _ in range(2)])
    assert logs[0] == logs[1]
