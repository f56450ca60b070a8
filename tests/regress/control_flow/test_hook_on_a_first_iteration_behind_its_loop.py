"""A hook on what one of the first iterations of a loop gave, registered behind the loop before anything else is called:
the iteration was taken back with it, and gradients were those without the hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def hooked(x: Any) -> None:
    x.register_hook(lambda g: g * 2)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 11])
@pytest.mark.parametrize("change", [hooked, weft.Tensor.retain_grad])
def test_gradients_are_those_of_eager_mode(number: int, change: Callable[[Any], Any]) -> None:
    def step(w: Any, y: Any) -> Any:
        path, loss = [], 0.0
        for _ in range(12):
            m = y * w
            y = y * 0.9 + (m[0] + m[1] * 1.5 + m[2]).tanh() * 0.1
            path.append(y)
            loss = loss + (m * m).sum()
        change(path[number])
        loss = loss + weft.stack(path).sum()
        loss.backward()
        kept = path[number].grad if change is weft.Tensor.retain_grad else None
        return loss if kept is None else loss + kept.sum()

    rng = np.random.default_rng(number)
    arrays, seen = (rng.normal(size=(3, 3)) * 0.3, rng.normal(size=3)), []
    for function in (step, weft.compile(step)):
        w, y = weft.tensor(arrays[0], requires_grad=True), weft.tensor(arrays[1])
        seen += [function(w, y).detach().numpy(), w.grad.numpy()]
    np.testing.assert_allclose(seen[2], seen[0], rtol=1e-12)
    np.testing.assert_allclose(seen[3], seen[1], rtol=1e-12)
