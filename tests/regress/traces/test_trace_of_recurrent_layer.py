"""A traced LSTM kept what it computed for the example as a constant: the Python within modules calls operators past
the functions that a trace sees."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit


@pytest.mark.parametrize("kind", [weft.nn.LSTM, weft.nn.GRU, weft.nn.RNN])
def test_a_traced_recurrent_layer_follows_its_input_and_its_weights(kind, rng):
    layer = kind(3, 2)
    traced = weft.jit.trace(layer, (weft.zeros(4, 5, 3),))
    n = int(rng.integers(1, 9))
    for length in (4, 6):
        x = weft.from_numpy(rng.standard_normal((length, n, 3)).astype(np.float32))
        np.testing.assert_allclose(traced(x)[0].detach().numpy(), layer(x)[0].detach().numpy(), rtol=1e-5, atol=1e-6)
        with weft.no_grad():
            layer.weight_hh_l0.mul_(2)
