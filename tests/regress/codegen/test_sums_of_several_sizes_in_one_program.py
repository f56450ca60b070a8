"""A kernel was shared by sums over short axes of different sizes: the first one's number of vectors served all, so that
a total over 12 elements behind one over 4 left four of them out; and whether a sum is added up in blocks, which decides
its bits, was the first one's too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def heavy(w: Any) -> Any:
    """So much of it that fewer lanes are taken at a time than a sum joins."""
    return (w**2) * 2 + (w + 1) ** 3 + (w + 2) ** 2 + w


@pytest.mark.parametrize(("dtype", "reduction"), [
    (weft.float32, "sum"), (weft.float32, "amax"), (weft.float32, "logsumexp"), (weft.float64, "sum"),
    (weft.int64, "prod"),
])  # fmt: skip
def test_short_sizes_in_any_order(dtype: Any, reduction: str, rng: np.random.Generator) -> None:
    sizes = [4, 12, *rng.integers(1, 17, 6).tolist(), 3, 16]
    held = [weft.from_numpy(rng.integers(1, 4, (2, n))).to(dtype) for n in sizes]

    def step() -> list[Any]:
        # each a kernel of its own: what is stored beside the total keeps them apart
        return [(getattr(heavy(w), reduction)(1), w * 2) for w in held]

    for (total, twice), w in zip(weft.compile(step)(), held, strict=True):
        np.testing.assert_allclose(total.numpy(), getattr(heavy(w), reduction)(1).numpy(), 1e-4)
        assert (twice == w * 2).all()


def test_penalties_of_small_parameters_behind_two_backward_calls(rng: np.random.Generator) -> None:
    shapes = [(4,), (3, 4), (int(rng.integers(1, 5)), 3), (2, 8)]
    params = [weft.from_numpy(rng.normal(size=s).astype(np.float32)).requires_grad_() for s in shapes]

    def step() -> Any:
        total: Any = 0.0
        for _ in range(2):
            loss = sum((p**2).sum() for p in params)
            loss.backward()  # type: ignore[union-attr]
            total = total + loss.detach()  # type: ignore[union-attr]
        return total

    total = weft.compile(step)()
    np.testing.assert_allclose(total.item(), 2 * sum(float((p.detach().numpy() ** 2).sum()) for p in params), 1e-5)
    for p in params:
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), 4 * p.detach().numpy(), 1e-5)


def test_a_sum_has_the_same_bits_whatever_else_is_added_up(rng: np.random.Generator) -> None:
    held = [weft.from_numpy(rng.normal(size=(3, n)).astype(np.float32)) for n in (300, 5000, 700, 2100, 90, 1100)]

    def step(*given: Any) -> list[Any]:
        return [(heavy(w).sum(1), w * w) for w in given]

    alone = [weft.compile(lambda w=w: (heavy(w).sum(1), w * w))()[0].tolist() for w in held]
    for order in (range(6), range(5, -1, -1), rng.permutation(6).tolist()):
        together = weft.compile(lambda order=order: step(*[held[i] for i in order]))()
        assert [t.tolist() for t, _ in together] == [alone[i] for i in order]


def test_columns_too(rng: np.random.Generator) -> None:
    held = [weft.from_numpy(rng.normal(size=(n, 5)).astype(np.float32)) for n in (20, 500, 40, 70, 200)]
    alone = [weft.compile(lambda w=w: (heavy(w).sum(0), w * w))()[0].tolist() for w in held]
    for order in (range(5), range(4, -1, -1)):
        together = weft.compile(lambda order=order: [(heavy(held[i]).sum(0), held[i] * held[i]) for i in order])()
        assert [t.tolist() for t, _ in together] == [alone[i] for i in order]
