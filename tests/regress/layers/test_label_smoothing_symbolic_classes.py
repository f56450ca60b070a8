"""cross_entropy with probabilities and label smoothing divided a number by a symbolic number of classes:
a TypeError when captured."""

from __future__ import annotations

import numpy as np

import weft
from weft.nn import functional as F


def test_one_program_for_every_number_of_classes(rng: np.random.Generator) -> None:
    def loss(x, y, smoothing):  # type: ignore[no-untyped-def]
        return F.cross_entropy(x, F.softmax(y, 1), label_smoothing=smoothing)

    compiled, captures = weft.compile(loss), weft.counters.captures
    for smoothing in (0.1, 0.3):
        n, classes = (int(k) for k in rng.integers(2, 9, 2))
        x, y = (weft.from_numpy(rng.standard_normal((n, classes))) for _ in range(2))
        weights = F.softmax(y, 1).numpy() * (1 - smoothing) + smoothing / classes
        expected = -(F.log_softmax(x, 1).numpy() * weights).sum() / n
        np.testing.assert_allclose(
            [compiled(x, y, smoothing).item(), loss(x, y, smoothing).item()], expected, rtol=1e-12
        )
    assert weft.counters.captures <= captures + 2
