"""A masked write's values have as many elements as the mask has Trues, which a program of the backward knows only while
it runs: such a part runs node by node instead of refusing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


@pytest.mark.parametrize("compiler", [ca.native, ca.interpret])
def test_written_values_have_their_gradient(rng: np.random.Generator, compiler: Any) -> None:
    for n in (int(rng.integers(4, 9)), 3, 1):
        mask = rng.random(n) < 0.5
        mask[0] = True
        scale = rng.standard_normal(n)
        x, v = (weft.from_numpy(rng.standard_normal(k)).requires_grad_() for k in (n, int(mask.sum())))
        with ca.enable(compiler):
            y = x * 1.0
            y[weft.from_numpy(mask)] = v
            first = weft.autograd.grad((y * y * weft.from_numpy(scale)).sum(), (x, v), create_graph=True)
            second = weft.autograd.grad(sum((g * g).sum() for g in first), (x, v))
        values = x.detach().numpy().copy()
        values[mask] = v.detach().numpy()
        slopes = 2 * values * scale
        np.testing.assert_allclose(first[0].detach().numpy(), np.where(mask, 0, slopes))
        np.testing.assert_allclose(first[1].detach().numpy(), slopes[mask])
        np.testing.assert_allclose(second[0].numpy(), np.where(mask, 0, 4 * slopes * scale))
        np.testing.assert_allclose(second[1].numpy(), (4 * slopes * scale)[mask])
