"""mvlgamma whose dimension is a size was a TypeError in a compiled function, and so was the density of a Wishart."""

from __future__ import annotations

import numpy as np

import weft


def test_the_dimension_is_a_size(rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda x: weft.mvlgamma(x, x.shape[0]))
    for size in rng.permutation([1, 2, 4]):
        x = rng.uniform(3, 5, size)
        j = np.arange(size)
        logs = weft.lgamma(weft.from_numpy(x[:, None] - j / 2)).sum(1).numpy()
        np.testing.assert_allclose(compiled(weft.from_numpy(x)).numpy(), logs + size * (size - 1) / 4 * np.log(np.pi))
