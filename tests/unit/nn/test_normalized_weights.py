"""weight_norm, spectral_norm and the fusion of BatchNorm: definitions, gradients by differences,
removal, compiled steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn.utils import (
    fuse_conv_bn_eval,
    fuse_linear_bn_eval,
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)


def test_a_weight_is_direction_times_length(rng: np.random.Generator) -> None:
    for dim, over in ((0, (1, 2, 3)), (1, (0, 2, 3)), (-2, (0, 1, 3)), (None, (0, 1, 2, 3))):
        layer = nn.Conv2d(3, 4, 2).double()
        before = layer.weight.detach().numpy().copy()
        weight_norm(layer, dim=dim)
        assert {n for n, _ in layer.named_parameters()} == {"bias", "weight_g", "weight_v"}
        np.testing.assert_allclose(layer.weight.detach().numpy(), before, rtol=1e-12)
        lengths = np.sqrt((before**2).sum(over, keepdims=dim is not None))
        np.testing.assert_allclose(layer.weight_g.detach().numpy(), lengths, rtol=1e-12)
        with weft.no_grad():
            layer.weight_g.mul_(2)
        x = weft.from_numpy(rng.normal(size=(2, 3, 4, 4)))
        want = weft.nn.functional.conv2d(x, weft.from_numpy(2 * before), layer.bias)
        np.testing.assert_allclose(layer(x).detach().numpy(), want.detach().numpy(), rtol=1e-10, atol=1e-12)
        remove_weight_norm(layer)
        assert {n for n, _ in layer.named_parameters()} == {"bias", "weight"} and not layer._forward_pre_hooks
        np.testing.assert_allclose(layer.weight.detach().numpy(), 2 * before, rtol=1e-12)
    with pytest.raises(ValueError, match="not found"):
        remove_weight_norm(layer)
    with pytest.raises(ValueError, match="uninitialized"):
        weight_norm(nn.LazyLinear(3))


@pytest.mark.parametrize("normalize", [weight_norm, spectral_norm])
def test_gradients_of_two_orders(normalize: Any, rng: np.random.Generator) -> None:
    layer = normalize(nn.Linear(4, 3).double()).eval()
    name = next(n for n in ("weight_v", "weight_orig") if hasattr(layer, n))
    x = weft.from_numpy(rng.normal(size=(5, 4)))

    def forward(w: weft.Tensor) -> weft.Tensor:
        return weft.func.functional_call(layer, {name: w}, (x,))

    start = getattr(layer, name).detach().clone().requires_grad_()
    assert weft.autograd.gradcheck(forward, (start,)) and weft.autograd.gradgradcheck(forward, (start,), fast_mode=True)


def test_the_greatest_singular_value_becomes_one(rng: np.random.Generator) -> None:
    for layer, axis in ((nn.Conv2d(3, 6, 2), 0), (nn.ConvTranspose1d(5, 4, 2), 1)):
        spectral_norm(layer.double(), n_power_iterations=3)
        x = weft.from_numpy(rng.normal(size=(2, 3, 4, 4) if axis == 0 else (2, 5, 4)))
        for _ in range(60):
            y = layer(x)
        matrix = np.moveaxis(layer.weight.detach().numpy(), axis, 0)
        assert np.linalg.svd(matrix.reshape(len(matrix), -1), compute_uv=False)[0] == pytest.approx(1.0, rel=1e-3)
        u = layer.weight_u.clone()
        layer.eval()
        np.testing.assert_allclose(layer(x).detach().numpy(), y.detach().numpy(), rtol=1e-6, atol=1e-9)
        assert weft.equal(u, layer.weight_u)
        assert set(layer.state_dict()) == {"bias", "weight_orig", "weight_u", "weight_v"}
        remove_spectral_norm(layer)
        assert set(layer.state_dict()) == {"bias", "weight"}
        np.testing.assert_allclose(layer(x).detach().numpy(), y.detach().numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("normalize", [weight_norm, spectral_norm])
def test_a_compiled_step_is_the_eager_one(normalize: Any) -> None:
    def losses(compiled: bool) -> list[float]:
        weft.manual_seed(3)
        layer = normalize(nn.Linear(4, 3))
        opt = weft.optim.SGD(layer.parameters(), lr=0.05)
        x = weft.randn(6, 4)

        def step() -> weft.Tensor:
            opt.zero_grad()
            loss = (layer(x) ** 2).sum()
            loss.backward()
            opt.step()
            return loss

        run = weft.compile(step) if compiled else step
        return [run().item() for _ in range(4)]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_a_folded_batch_norm_computes_the_same(bias: bool, affine: bool, rng: np.random.Generator) -> None:
    cases: list[tuple[Any, Any, tuple[int, ...], dict[str, Any]]] = [
        (nn.Conv2d(3, 4, 2, bias=bias), nn.BatchNorm2d(4, affine=affine), (2, 3, 5, 5), {}),
        (nn.ConvTranspose1d(3, 4, 2, bias=bias), nn.BatchNorm1d(4, affine=affine), (2, 3, 5), {"transpose": True}),
        (nn.Linear(3, 4, bias=bias), nn.BatchNorm1d(4, affine=affine), (6, 3), {}),
    ]
    for layer, norm, shape, options in cases:
        model = nn.Sequential(layer, norm).double()
        model(weft.from_numpy(rng.normal(size=shape)))
        model.eval()
        fuse = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
        x = weft.from_numpy(rng.normal(size=shape))
        np.testing.assert_allclose(
            fuse(layer, norm, **options)(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-9, atol=1e-12
        )
        with pytest.raises(AssertionError):
            fuse(layer.train(), norm)
