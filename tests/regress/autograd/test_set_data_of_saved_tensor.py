"""A formula reads the tensor that was saved, with what `.data` has put into it since, as in PyTorch: no version
counter moves. Also where that tensor is no leaf."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca

MODES: dict[str, Callable[[], Any]] = {
    "engine": nullcontext, "native": ca.enable, "interpreted": lambda: ca.enable(ca.interpret)
}


@pytest.mark.parametrize("mode", [*MODES, "step"])
def test_gradients_of_both_orders_go_by_the_new_data(mode: str, rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        y = x * 2
        z = y.sin()
        y.data = y.data * 3
        (slope,) = weft.autograd.grad(z.sum(), x, create_graph=True)
        (bend,) = weft.autograd.grad(slope.sum(), x)
        return slope.detach(), bend

    function = weft.compile(step) if mode == "step" else step
    for _ in range(2):
        v = rng.standard_normal(int(rng.integers(1, 7)))
        with MODES.get(mode, nullcontext)():
            slope, bend = function(weft.from_numpy(v).requires_grad_())
        np.testing.assert_allclose(slope.numpy(), 2 * np.cos(6 * v))
        np.testing.assert_allclose(bend.numpy(), -4 * np.sin(6 * v))
