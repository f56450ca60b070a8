"""A split function that takes several optimizer steps in one call (an epoch) and is no whole program lost updates in
silence: the second update asked a storage whether it is there by its truth, which is its length, for which its bytes
were computed, between the first parameter's write and the others'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: weft.optim.SGD(p, lr=0.05, momentum=0.9),
    "Adam": lambda p: weft.optim.Adam(p, lr=0.05),
    "RMSprop": lambda p: weft.optim.RMSprop(p, lr=0.05),
}


@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_epoch_in_a_call(name: str, steps: int, rng: np.random.Generator) -> None:
    x, y = (weft.from_numpy(rng.standard_normal((2 * steps, n))) for n in (3, 1))

    def trained(split: bool) -> list[Any]:
        weft.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        optimizer = OPTIMIZERS[name](model.parameters())

        def epoch(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
            total = weft.zeros(())
            for i in range(0, 2 * steps, 2):
                loss = ((model(x[i : i + 2]) - y[i : i + 2]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total = total + loss.detach()
            print(end="")
            return total

        run = weft.compile(epoch, split=True) if split else epoch
        losses = [float(run(x, y)) for _ in range(3)]
        return [losses, *[p.tolist() for p in model.parameters()]]

    for here, there in zip(trained(True), trained(False), strict=True):
        np.testing.assert_allclose(here, there, 1e-9, 1e-9)
