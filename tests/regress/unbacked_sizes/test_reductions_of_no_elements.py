"""What reduces a vector whose size only the run knows, and which turns out to be empty: bincount and histogram raised
an error of amax, the covariance was 0 where it is NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "bincount": lambda x: weft.bincount((x * 2).long()),
    "bincount of bytes": lambda x: weft.bincount((x * 2).to(weft.uint8), minlength=3),
    "weighted": lambda x: weft.bincount((x * 2).long(), x, 2),
    "histogram": lambda x: weft.cat(list(weft.histogram(x, 3))),
    "of two dims": lambda x: weft.histogramdd(weft.stack([x, x * x], 1), [2, 3])[0],
    "cov": lambda x: weft.cov(weft.stack([x, x * x])),
    "cov without correction": lambda x: weft.cov(weft.stack([x, x * x]), correction=0),
    "corrcoef": lambda x: weft.corrcoef(weft.stack([x, x * x])),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("split", [False, True])
def test_calls_with_and_without_elements(name: str, split: bool, rng: np.random.Generator) -> None:
    def forward(x: Tensor) -> Tensor:
        return REDUCTIONS[name](x[x > 0]) * 1

    compiled = weft.compile(forward, split=split)
    for low, high in ((-1, 1.5), (-2, -1), (0.1, 2), (-2, -1)):
        x = weft.tensor(rng.uniform(low, high, int(rng.integers(1, 6))))
        expected, value = forward(x).numpy(), compiled(x).numpy()
        assert expected.shape == value.shape
        np.testing.assert_allclose(value, expected, rtol=1e-12)
