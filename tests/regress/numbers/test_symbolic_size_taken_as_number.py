"""Operators that looked at a size as a plain number and saw a symbol when captured: broadcasts by a size of 1,
0-dim bases of row writes, fractions of a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "tensordot of sizes of 1": (lambda a, b: weft.tensordot(a, b, dims=([0, 1], [2, 0])), ((1, 1, 3), (2, 4, 5))),
    "tensordot, the other way": (lambda a, b: weft.tensordot(a, b, dims=([0], [1])), ((3, 2), (4, 1))),
    "take_along_dim of one row": (lambda a, b: weft.take_along_dim(a, (b * 0 + 1).long(), 1), ((1, 5), (4, 2))),
    "take_along_dim by one row": (lambda a, b: weft.take_along_dim(a, (b * 0 - 1).long(), 1), ((4, 5), (1, 2))),
    "index_select of a number": (lambda a, b: weft.index_select(a, 0, (b * 0).long()), ((), (1,))),
    "index_copy into a number": (lambda a, b: weft.index_copy(a, 0, weft.zeros(1, dtype=weft.int64), b[0]), ((), (1,))),
    "interpolate by a fraction": (lambda a, b: F.interpolate(a, scale_factor=1.7) * b, ((2, 2, 5), (1,))),
    "interpolate, two fractions": (
        lambda a, b: F.interpolate(a, scale_factor=(0.6, 1.7), mode="bilinear") * b, ((2, 2, 5, 4), (1,))
    ),
    "pdist": (lambda a, b: F.pdist(a) * b, ((4, 3), (1,))),
    "batch norm of nothing": (lambda a, b: F.batch_norm(a, None, None, None, None, training=True) * b, ((0,), (1,))),
}


@pytest.mark.parametrize("name", CASES)
def test_captured_as_eager(rng: np.random.Generator, name: str) -> None:
    function, shapes = CASES[name]
    arrays = [rng.standard_normal(shape) for shape in shapes]
    found = []
    for run in (function, weft.compile(function)):
        leaves = [weft.from_numpy(a.copy()).requires_grad_() for a in arrays]
        result = run(*leaves)
        cotangent = weft.from_numpy(np.random.default_rng(1).standard_normal(tuple(result.shape)))
        gradients = weft.autograd.grad(result, leaves, cotangent, allow_unused=True, materialize_grads=True)
        found.append([result.detach().numpy(), *(g.numpy() for g in gradients)])
    for eager, captured in zip(*found, strict=True):
        np.testing.assert_allclose(captured, eager, rtol=1e-12, atol=1e-12)


def test_a_fraction_of_another_size_is_another_program(rng: np.random.Generator) -> None:
    grown = weft.compile(lambda x: F.interpolate(x, scale_factor=1.7))
    for size in (5, 6, 5):
        assert grown(weft.zeros(1, 1, size)).shape[2] == int(size * 1.7)


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding_that_keeps_sizes_is_symbolic_too(rng: np.random.Generator, rank: int, kernel: int) -> None:
    convolve = getattr(F, f"conv{rank}d")
    kept = weft.compile(lambda x, w: convolve(x, w, padding="same"))
    w = weft.from_numpy(rng.standard_normal((2, 3, *[kernel] * rank)))
    for size in (4, 5):
        x = weft.from_numpy(rng.standard_normal((1, 3, *[size] * rank)))
        np.testing.assert_allclose(kept(x, w).numpy(), convolve(x, w, padding="same").numpy(), rtol=1e-12, atol=1e-12)


def test_len_within_transforms_is_a_size() -> None:
    """Python's own len was called by the one that takes symbols, which then was replaced by itself."""

    def step(x: weft.Tensor) -> weft.Tensor:
        first = weft.func.grad(lambda z: (z * len(z)).sum())(x)
        rows = weft.func.vmap(lambda row: row * len(row))(weft.stack([x, x]))
        parts = weft.func.grad(lambda z: sum(p.sum() * i for i, p in enumerate(z.split([2, len(z) - 2]))))(x)
        return first + rows.sum(0) + parts

    compiled = weft.compile(step)
    for size in (4, 7, 3):
        x = weft.arange(1.0, size + 1)
        weft.testing.assert_close(compiled(x), step(x))
