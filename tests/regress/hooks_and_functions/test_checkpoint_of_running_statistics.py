"""The second run of a checkpoint that ends early ended within batch norm, between what it saves and the update of the
running statistics: these were updated once where PyTorch updates them twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.utils.checkpoint import checkpoint

NORMS: dict[str, Callable[[], Any]] = {
    "batch": lambda: weft.nn.BatchNorm1d(3), "bare": lambda: weft.nn.BatchNorm1d(3, affine=False),
    "instance": lambda: weft.nn.InstanceNorm1d(3, track_running_stats=True),
    "instance, affine": lambda: weft.nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
}


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile, lambda f: weft.compile(f, split=True)],
                         ids=["eager", "compile", "split"])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("kind", NORMS)
def test_both_runs_update_the_statistics(kind: str, reentrant: bool, wrap: Any, rng: np.random.Generator) -> None:
    norm, plain = NORMS[kind](), NORMS[kind]()

    def step(x: Any) -> Any:
        return checkpoint(norm, x, use_reentrant=reentrant)

    run = wrap(step)
    for size in rng.integers(2, 6, 4).tolist():
        values = rng.uniform(-1, 1, (size, 3, 4)).astype(np.float32)
        run(weft.tensor(values, requires_grad=True)).square().sum().backward()
        plain(weft.tensor(values))
        plain(weft.tensor(values))
        np.testing.assert_allclose(norm.running_mean.numpy(), plain.running_mean.numpy(), 1e-4, 1e-6)
        np.testing.assert_allclose(norm.running_var.numpy(), plain.running_var.numpy(), 1e-4, 1e-6)
        assert norm.num_batches_tracked.item() == plain.num_batches_tracked.item()
