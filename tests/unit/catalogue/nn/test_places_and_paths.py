"""Functions that pick places or paths, against loops: grid_sample, embedding_bag, max_unpool, ctc_loss."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import weft
from weft.nn import functional as F


def looked_up(image, y, x):
    """image [c, h, w] at real coordinates, bilinear, zeros outside."""
    _, height, width = image.shape
    total = np.zeros(image.shape[0])
    for i, j in itertools.product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        if 0 <= i < height and 0 <= j < width:
            total += image[:, i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


@pytest.mark.parametrize("corners", [True, False])
def test_grid_sample_is_a_bilinear_lookup(rng, corners):
    image, grid = rng.normal(size=(2, 3, 4, 5)), rng.uniform(-1.3, 1.3, (2, 3, 2, 2))
    got = F.grid_sample(weft.from_numpy(image), weft.from_numpy(grid), align_corners=corners).numpy()
    for n, i, j in np.ndindex(2, 3, 2):
        x, y = grid[n, i, j]
        at = ((y + 1) / 2 * 3, (x + 1) / 2 * 4) if corners else (((y + 1) * 4 - 1) / 2, ((x + 1) * 5 - 1) / 2)
        np.testing.assert_allclose(got[n, :, i, j], looked_up(image[n], *at), atol=1e-12)


@pytest.mark.parametrize(
    "mode,padding", list(itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"]))
)
def test_the_identity_grid_gives_the_image_back(rng, mode, padding):
    image = weft.from_numpy(rng.normal(size=(1, 2, 4, 3)))
    grid = F.affine_grid(weft.eye(2, 3, dtype=weft.float64).unsqueeze(0), (1, 2, 4, 3), align_corners=False)
    np.testing.assert_allclose(F.grid_sample(image, grid, mode, padding, False).numpy(), image.numpy(), atol=1e-9)


def test_grid_sample_has_derivatives(rng):
    image = weft.from_numpy(rng.normal(size=(1, 2, 3, 3))).requires_grad_()
    grid = weft.from_numpy(rng.uniform(-0.8, 0.8, (1, 2, 2, 2))).requires_grad_()
    for mode in ("bilinear", "bicubic"):
        assert weft.autograd.gradcheck(lambda i, g, mode=mode: F.grid_sample(i, g, mode, "zeros", True), (image, grid))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_is_a_loop_over_bags(rng, mode):
    table, index = rng.normal(size=(6, 3)), rng.integers(0, 6, 9)
    starts = np.array([0, 2, 2, 7])
    padding = int(index[3])
    got = F.embedding_bag(
        weft.from_numpy(index), weft.from_numpy(table), weft.from_numpy(starts), mode=mode, padding_idx=padding
    ).numpy()
    for b, (start, end) in enumerate(itertools.pairwise([*starts, 9])):
        rows = table[[i for i in index[start:end] if i != padding]]
        expected = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, 0) if len(rows) else np.zeros(3)
        np.testing.assert_allclose(got[b], expected, atol=1e-12)


def test_embedding_bag_weighs_its_samples(rng):
    table = weft.from_numpy(rng.normal(size=(5, 2))).requires_grad_()
    weights = weft.from_numpy(rng.normal(size=(3, 4))).requires_grad_()
    index = weft.from_numpy(rng.integers(0, 5, (3, 4)))
    out = F.embedding_bag(index, table, mode="sum", per_sample_weights=weights)
    np.testing.assert_allclose(
        out.detach().numpy(), (table[index] * weights.unsqueeze(-1)).sum(1).detach().numpy(), atol=1e-12
    )
    assert weft.autograd.gradcheck(
        lambda t, w: F.embedding_bag(index, t, mode="sum", per_sample_weights=w), (table, weights)
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_puts_maxima_back(rng, rank):
    x = rng.normal(size=(2, 3, *(6, 4, 8)[:rank]))
    pool, unpool = getattr(F, f"max_pool{rank}d"), getattr(F, f"max_unpool{rank}d")
    values, places = pool(weft.from_numpy(x), 2, return_indices=True)
    back = unpool(values, places, 2).numpy()
    assert back.shape == x.shape
    kept = back != 0
    np.testing.assert_array_equal(back[kept], x[kept])
    assert kept.sum() == values.numel()


def spelled(path, blank):
    """What a path says: repeats merged, then blanks left out."""
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def test_ctc_loss_sums_over_all_paths(rng):
    steps, classes, blank = 4, 3, int(rng.integers(0, 3))
    letters = [c for c in range(classes) if c != blank]
    targets = [(letters[0],), (letters[0], letters[0]), (letters[1], letters[0]), ()]
    lengths = [4, 4, 3, 2]
    logits = rng.normal(size=(steps, len(targets), classes))
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = []
    for n, (target, length) in enumerate(zip(targets, lengths, strict=True)):
        paths = (p for p in itertools.product(range(classes), repeat=length) if spelled(p, blank) == target)
        expected.append(-math.log(sum(math.exp(sum(logs[t, n, c] for t, c in enumerate(p))) for p in paths)))
    flat = weft.tensor([c for t in targets for c in t])
    told = tuple(len(t) for t in targets)
    got = F.ctc_loss(weft.from_numpy(logs), flat, tuple(lengths), told, blank, "none").numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-10)
    mean = F.ctc_loss(weft.from_numpy(logs), flat, tuple(lengths), told, blank).item()
    assert mean == pytest.approx(np.mean(np.array(expected) / np.maximum(told, 1)))


def test_ctc_loss_through_a_log_softmax_has_the_gradient_of_its_logits(rng):
    logits = weft.from_numpy(rng.normal(size=(5, 2, 4))).requires_grad_()
    targets = weft.tensor([[1, 2, 2], [3, 1, 0]])
    assert weft.autograd.gradcheck(lambda x: F.ctc_loss(F.log_softmax(x, -1), targets, (5, 4), (3, 2)), (logits,))


def test_a_target_that_is_too_long_costs_infinity_or_nothing(rng):
    logs = F.log_softmax(weft.from_numpy(rng.normal(size=(2, 1, 4))).requires_grad_(), -1)
    targets, told = weft.tensor([[1, 1, 2]]), (3,)
    assert F.ctc_loss(logs, targets, (2,), told).item() == math.inf
    loss = F.ctc_loss(logs, targets, (2,), told, zero_infinity=True)
    (slope,) = weft.autograd.grad(loss, logs)
    assert loss.item() == 0 and not slope.numpy().any()


def test_reflected_borders_of_one_element_are_that_element():
    image = weft.tensor([[[[3.0]]]])
    grid = weft.tensor([[[[0.7, -0.9]]]])
    assert F.grid_sample(image, grid, padding_mode="reflection", align_corners=True).item() == 3.0
