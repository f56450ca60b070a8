"""Layers and losses on empty batches, NaN places, mixed dtypes and values out of range."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn import functional as F


@pytest.mark.parametrize("layer, shape", [
    (nn.Conv2d(3, 2, 2), (0, 3, 4, 4)), (nn.ConvTranspose1d(3, 2, 2), (0, 3, 4)), (nn.BatchNorm2d(3), (0, 3, 2, 2)),
    (nn.Linear(3, 2), (0, 3)),
    (nn.GroupNorm(1, 3), (0, 3, 2)), (nn.LayerNorm(3), (0, 3)),
])
def test_parameters_get_zeros_from_an_empty_batch(layer: nn.Module, shape: tuple[int, ...]) -> None:
    x = weft.randn(*shape, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.shape == shape
    assert all(p.grad is not None and not p.grad.numpy().any() and p.grad.shape == p.shape for p in layer.parameters())


def test_cross_entropy_without_classes() -> None:
    assert F.cross_entropy(weft.rand(5, 0), weft.rand(5, 0)).item() == 0


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_nan_or_infinite(mode: str, padding: str) -> None:
    image = weft.arange(16.0).reshape(1, 1, 4, 4)
    grid = weft.tensor([[[[np.nan, 0.0], [np.inf, 0.0], [0.0, -np.inf], [0.0, 0.0]]]])
    found = F.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=True)
    centre = F.grid_sample(image, grid[:, :, 3:], mode=mode, padding_mode=padding, align_corners=True)
    assert found.shape == (1, 1, 1, 4) and found[0, 0, 0, 3].item() == centre.item()


def test_cosine_similarity_of_mixed_dtypes() -> None:
    whole, real = weft.tensor([3, 4], dtype=weft.int8), weft.tensor([4.0, 3.0])
    assert F.cosine_similarity(whole, real, dim=0).item() == pytest.approx(0.96)
    with pytest.raises(RuntimeError, match="floating point"):
        F.cosine_similarity(whole, whole, dim=0)


def test_values_out_of_range_are_refused() -> None:
    inside, outside = weft.tensor([0.5, 0.25]), weft.tensor([0.5, 1.5])
    for input, target in ((outside, inside), (inside, outside), (inside * np.nan, inside)):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            F.binary_cross_entropy(input, target)
    assert nn.BCELoss()(inside, inside).item() > 0
    assert (
        weft.compile(F.binary_cross_entropy)(inside, inside).item()
        == pytest.approx(F.binary_cross_entropy(inside, inside).item())
    )
    assert weft.func.vmap(F.binary_cross_entropy)(inside, inside).shape == (2,)
    with pytest.raises(ValueError, match="var"):
        F.gaussian_nll_loss(inside, inside, -inside)
    with pytest.raises(ValueError, match="more than 1 value"):
        nn.GroupNorm(2, 2)(weft.rand(1, 2))


def test_a_transposed_convolution_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.conv_transpose1d(weft.ones(2, 3, 1), weft.ones(3, 4, 2), stride=2, padding=1)
    assert (
        F.conv_transpose1d(weft.ones(2, 3, 1), weft.ones(3, 4, 2), stride=2, padding=1, output_padding=1).shape
        == (2, 4, 1)
    )
