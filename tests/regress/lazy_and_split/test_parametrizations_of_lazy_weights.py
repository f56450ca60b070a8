"""Parametrizations made their vectors and identities on the CPU, and refused them beside a weight of another device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import nn

parametrizations = nn.utils.parametrizations
WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "spectral_norm": parametrizations.spectral_norm,
    "spectral_norm as a hook": nn.utils.spectral_norm,
    "matrix_exp": lambda m: parametrizations.orthogonal(m, orthogonal_map="matrix_exp"),
    "cayley": lambda m: parametrizations.orthogonal(m, orthogonal_map="cayley"),
    "householder": lambda m: parametrizations.orthogonal(m, orthogonal_map="householder"),
    "weight_norm": parametrizations.weight_norm,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("moved_first", [True, False])
def test_they_are_made_and_trained_on_the_device_of_the_weight(
    way: str, sizes: tuple[int, int], moved_first: bool
) -> None:
    outs = []
    for device in ("cpu", "lazy"):
        weft.manual_seed(3)
        layer: nn.Module = nn.Linear(*sizes)
        layer = WAYS[way](layer.to(device)) if moved_first else WAYS[way](layer).to(device)
        for tensor in (*layer.parameters(), *layer.buffers()):
            assert str(tensor.device) == device
        optimizer = weft.optim.SGD(layer.parameters(), lr=0.1)
        x = weft.linspace(-1, 1, 2 * sizes[0]).reshape(2, sizes[0]).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            layer(x).square().sum().backward()
            optimizer.step()
        outs.append(layer(x).detach().cpu().numpy())
    np.testing.assert_allclose(outs[1], outs[0], rtol=1e-3, atol=1e-4)


def test_the_slope_of_an_affine_transform_lies_where_its_argument_does() -> None:
    transform = weft.distributions.AffineTransform(weft.zeros(3, device="lazy"), 2.0)
    x = weft.ones(3, device="lazy")
    assert str(transform.log_abs_det_jacobian(x, transform(x)).device) == "lazy"
