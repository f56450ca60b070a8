"""A Module whose pre-hook computes an attribute (weight_norm, spectral_norm) could not be frozen: the copy met a tensor
with a history."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn

NORMS: list[Callable[[Any], Any]] = [nn.utils.weight_norm, nn.utils.spectral_norm]
LAYERS: list[tuple[Callable[[], Any], tuple[int, ...]]] = [
    (lambda: nn.Linear(3, 2), (4, 3)), (lambda: nn.Conv1d(3, 2, 2), (4, 3, 5)),
]  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS, ids=["linear", "conv"])
@pytest.mark.parametrize("norm", NORMS)
def test_frozen_values(norm: Any, layer: Any, rng: np.random.Generator) -> None:
    make, shape = layer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(norm(make()), nn.BatchNorm1d(2)).eval()
    x = weft.from_numpy(rng.standard_normal(shape).astype(np.float32))
    model(x)  # (the attribute has a history now)
    frozen = weft.jit.freeze(weft.jit.script(model))
    expected = model(x)
    for _ in range(3):
        np.testing.assert_allclose(frozen(x).detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert not list(frozen.parameters())
    with weft.no_grad():
        for p in model.parameters():
            p.mul_(2)
    np.testing.assert_allclose(frozen(x).detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
