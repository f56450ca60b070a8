"""Gradients of selections and bounds beside NaN and infinity: what is not selected gets 0 even where the gradient that
arrives is infinite (it was NaN), and a NaN is never hidden behind a gradient of 0 (hardtanh, relu6, shrinking, the
infinity norm, cdist with it, scatter_reduce, index_reduce)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import weft

F = weft.nn.functional
INF, NAN = math.inf, math.nan
Step = Callable[[weft.Tensor], weft.Tensor]
SELECTIONS: dict[str, tuple[Step, list[float], list[float]]] = {
    "max": (lambda x: x.max(), [1.0, INF, INF], [0.0, INF, INF]),
    "min": (lambda x: x.min(), [1.0, NAN, 3.0], [0.0, NAN, 0.0]),
    "median": (lambda x: x.median(), [1.0, INF, INF], [0.0, INF, INF]),
    "nanmedian": (lambda x: x.nanmedian(), [NAN, INF, INF], [0.0, INF, INF]),
    "norm": (lambda x: x.norm(INF), [1.0, INF, -INF], [0.0, INF, -INF]),
}
BOUNDS: dict[str, Step] = {
    "hardtanh": F.hardtanh, "relu6": F.relu6, "softshrink": F.softshrink, "hardshrink": F.hardshrink,
    "norm": lambda x: x.norm(INF), "least norm": lambda x: x.norm(-INF),
    "cdist": lambda x: weft.cdist(x[:, None], x.detach()[:, None] + 1, p=INF),
    "scatter_reduce": lambda x: weft.zeros(2).scatter_reduce(0, weft.tensor([0, 1, 0]), x, "amax"),
    "index_reduce": lambda x: weft.ones(2).index_reduce(0, weft.tensor([0, 1, 0]), x, "amin"),
}  # fmt: skip


def gradient(step: Step) -> Step:
    def run(x: weft.Tensor) -> weft.Tensor:
        y = step(x)
        return weft.autograd.grad((y + 0.25 * y * y).sum(), x)[0]

    return run


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_is_not_selected_gets_nothing(name: str) -> None:
    step, values, wanted = SELECTIONS[name]
    for run in (gradient(step), weft.compile(gradient(step))):
        got = run(weft.tensor(values, requires_grad=True)).numpy()
        np.testing.assert_array_equal(got, np.array(wanted))


@pytest.mark.parametrize("name", BOUNDS)
def test_nan_is_not_hidden(name: str) -> None:
    for run in (gradient(BOUNDS[name]), weft.compile(gradient(BOUNDS[name]))):
        assert math.isnan(run(weft.tensor([0.25, NAN, 2.0], requires_grad=True))[1])
        assert not run(weft.tensor([0.25, 0.75, 2.0], requires_grad=True)).isnan().any()
