"""multi_margin_loss of one row gave a 0-dim loss where the target had a dim; it lies as the target does."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("rank", [1, 2])
def test_losses_lie_as_targets_do(rank: int, rng: np.random.Generator) -> None:
    classes = int(rng.integers(2, 7))
    row, label = rng.standard_normal(classes), int(rng.integers(classes))
    expected = sum(max(0.0, 1.0 - row[label] + v) for j, v in enumerate(row) if j != label) / classes
    x = weft.from_numpy(row if rank == 1 else row[None])
    for target, shape in ((weft.tensor(label), ()), (weft.tensor([label]), (1,))):
        loss = weft.nn.functional.multi_margin_loss(x, target, reduction="none")
        assert tuple(loss.shape) == shape
        np.testing.assert_allclose(loss.numpy().reshape(()), expected)
