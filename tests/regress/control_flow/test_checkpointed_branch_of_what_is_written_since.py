"""A branch or a loop in a checkpoint, of a tensor that is written before backward: eager mode runs the region again on
what is there then; captured, it was a VersionError, or the gradient for what had been there, in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.utils.checkpoint import checkpoint


def product(x: Any, w: Any) -> Any:
    return weft.cond(x.sum() > 0, lambda a: (a * a * w).sin(), lambda a: (a * w).cos(), (x,))


def total(x: Any, w: Any) -> Any:
    return weft.cond(x.sum() > 0, lambda a: (a * a + w[0]).sin(), lambda a: (a + w).cos(), (x,))


def loop(x: Any, w: Any) -> Any:
    return weft.while_loop(lambda a, i: i < 3, lambda a, i: ((a + w).sin() * a, i + 1), (x, 0))[0]


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
@pytest.mark.parametrize("region", [product, total, loop])
def test_gradients_are_those_of_eager_mode(
    region: Callable[..., Any], options: dict[str, Any], rng: np.random.Generator
) -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        loss = checkpoint(lambda x: region(x, weight), x * 1, use_reentrant=False).sum()
        with weft.no_grad():
            weight.mul_(2)
        loss.backward()
        return loss.detach()

    weight = weft.empty(3)
    compiled = weft.compile(step, backend="interpret", **options)
    for sign in (1.0, -1.0):
        row, values = rng.uniform(0.5, 1.5, 3) * sign, weft.tensor(rng.uniform(0.5, 1.5, 3), dtype=weft.float32)
        outcomes = []
        for run in (step, compiled):
            x = weft.tensor(row, dtype=weft.float32, requires_grad=True)
            weight.copy_(values)
            outcomes.append((run(x), x.grad))
        for ours, theirs in zip(outcomes[1], outcomes[0], strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)
