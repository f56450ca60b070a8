"""Fractional pooling against the definition of its windows, unpooling as the inverse of pooling,
adaptive pooling of every size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn import functional as F


def windows(size: int, count: int, width: int, sample: float) -> list[slice]:
    """Graham's pseudorandom sequence of window starts; the last one ends with the input."""
    step = (size - width) / (count - 1) if count > 1 else 0.0
    starts = [int((i + sample) * step) - int(sample * step) for i in range(count - 1)] + [size - width]
    return [slice(s, s + width) for s in starts]


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling_takes_the_greatest_of_random_windows(rank: int, rng: np.random.Generator) -> None:
    size = tuple(int(s) for s in rng.integers(6, 10, rank))
    count, width = tuple(int(c) for c in rng.integers(1, 5, rank)), tuple(int(w) for w in rng.integers(1, 3, rank))
    x, samples = rng.normal(size=(2, 3, *size)), rng.random((2, 3, rank))
    leaf = weft.from_numpy(x).requires_grad_()
    pool = getattr(nn, f"FractionalMaxPool{rank}d")(
        width, output_size=count, return_indices=True, _random_samples=weft.from_numpy(samples)
    )
    values, places = pool(leaf)
    for n, c in itertools.product(range(2), range(3)):
        order = samples[n, c][::-1] if rank == 2 else samples[n, c]
        cuts = [windows(s, k, w, u) for s, k, w, u in zip(size, count, width, order, strict=True)]
        want = np.array([x[n, c][cut].max() for cut in itertools.product(*cuts)]).reshape(count)
        np.testing.assert_array_equal(values[n, c].detach().numpy(), want)
        np.testing.assert_array_equal(x[n, c].ravel()[places[n, c].numpy()], want)
    values.sum().backward()
    assert leaf.grad.sum().item() == values.numel()
    ratio = getattr(F, f"fractional_max_pool{rank}d")(leaf[0], width, output_ratio=0.5)
    assert ratio.shape == (3, *(s // 2 for s in size))


def test_fractional_pooling_refuses() -> None:
    x = weft.randn(2, 7, 7)
    for options in ({"kernel_size": (1,), "output_size": 3}, {"kernel_size": 2, "output_size": (9, 3)}, {
        "kernel_size": 2, "output_size": ()
    }):
        with pytest.raises(RuntimeError, match="fractional_max_pool2d"):
            F.fractional_max_pool2d(x, **options)
    for options in ({}, {"output_size": 2, "output_ratio": 0.5}, {"output_ratio": 1.5}):
        with pytest.raises(ValueError):
            nn.FractionalMaxPool2d(2, **options)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_puts_the_greatest_back(rank: int, rng: np.random.Generator) -> None:
    size = tuple(2 * int(s) for s in rng.integers(2, 4, rank))
    x = weft.from_numpy(rng.normal(size=(2, 3, *size))).requires_grad_()
    values, places = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(x)
    back = getattr(nn, f"MaxUnpool{rank}d")(2)(values, places)
    found, kept = back.detach().numpy(), back.detach().numpy() != 0
    assert kept.sum() == values.numel()
    np.testing.assert_array_equal(found[kept], x.detach().numpy()[kept])
    (back * back).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * found)
    wider = getattr(nn, f"MaxUnpool{rank}d")(2)(values, places, output_size=(2, 3, *(s + 1 for s in size)))
    assert wider.shape == (2, 3, *(s + 1 for s in size))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_maxima_of_every_size(rank: int, rng: np.random.Generator) -> None:
    for _ in range(6):
        size, count = (tuple(int(s) for s in rng.integers(1, 8, rank)) for _ in range(2))
        x = np.round(rng.normal(size=(2, *size)))  # with ties: the first counts
        values, places = getattr(F, f"adaptive_max_pool{rank}d")(weft.from_numpy(x), count, return_indices=True)
        for at in itertools.product(*map(range, count)):
            cut = tuple(slice(i * s // c, -(-(i + 1) * s // c)) for i, s, c in zip(at, size, count, strict=True))
            for channel in range(2):
                window = x[channel][cut]
                first = np.unravel_index(window.argmax(), window.shape)
                assert values[(channel, *at)].item() == window.max()
                assert (
                    places[(channel, *at)].item()
                    == np.ravel_multi_index([f + c.start for f, c in zip(first, cut, strict=True)], size)
                )
    assert getattr(F, f"adaptive_max_pool{rank}d")(weft.ones(0, 2, *(3,) * rank), 2).shape == (0, 2, *(2,) * rank)
