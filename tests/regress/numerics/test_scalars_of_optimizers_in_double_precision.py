"""Optimizers kept the scalars that they compute with (ASGD's eta, NAdam's product of momenta) in single precision
where double precision is the default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft

OPTIMIZERS: dict[str, Any] = {
    "ASGD": lambda p: weft.optim.ASGD([p], lr=0.1),
    "NAdam": lambda p: weft.optim.NAdam([p], lr=0.1),
    "Adagrad": lambda p: weft.optim.Adagrad([p], lr=0.1),
    "Adam": lambda p: weft.optim.Adam([p], lr=0.1),
}


@pytest.fixture(params=["float32", "float64"])
def default(request: Any) -> Iterator[weft.dtype]:
    weft.set_default_dtype(getattr(weft, request.param))
    yield getattr(weft, request.param)
    weft.set_default_dtype(weft.float32)


def trained(name: str, wrap: Any) -> tuple[weft.nn.Parameter, Any]:
    p = weft.nn.Parameter(weft.tensor([1.0, -2.0], dtype=weft.float64))
    optimizer = OPTIMIZERS[name](p)

    def step() -> None:
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()

    run = wrap(step)
    for _ in range(4):
        run()
    return p, optimizer.state[p]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_scalars_have_the_default_dtype_or_single_precision(name: str, default: weft.dtype) -> None:
    eager, state = trained(name, lambda step: step)
    compiled, compiled_state = trained(name, weft.compile)
    tolerance = 1e-6 if default is weft.float32 else 1e-14
    np.testing.assert_allclose(compiled.detach().numpy(), eager.detach().numpy(), rtol=tolerance)
    for each in (state, compiled_state):
        scalars = [v for v in each.values() if isinstance(v, weft.Tensor) and v.dim() == 0]
        assert scalars and all(v.dtype == default for v in scalars)


def test_the_first_step_of_asgd_is_that_of_the_formula() -> None:
    weft.set_default_dtype(weft.float64)
    try:
        p = weft.nn.Parameter(weft.tensor([1.0, -2.0]))
        optimizer = weft.optim.ASGD([p], lr=0.1, lambd=0.0)
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
    finally:
        weft.set_default_dtype(weft.float32)
    np.testing.assert_allclose(p.detach().numpy(), np.array([1.0, -2.0]) * 0.8**3, rtol=1e-14)
