"""Gradients of values that are written where a mask holds: one row that a second mask has picked stands for all places
(its gradient was written out of bounds), and a mask over a later dim takes values of a known size (refused)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft

Step = Callable[[weft.Tensor, weft.Tensor, weft.Tensor], weft.Tensor]


def picked(x: weft.Tensor, holds: weft.Tensor, other: weft.Tensor) -> weft.Tensor:
    z = x * 2
    z[holds] = (x * 3)[other]
    return z


def added(x: weft.Tensor, holds: weft.Tensor, other: weft.Tensor) -> weft.Tensor:
    return (x * 2).index_put((holds,), (x * 3)[other], accumulate=True)


def columns(x: weft.Tensor, holds: weft.Tensor, other: weft.Tensor) -> weft.Tensor:
    y = (x * 2).t().unsqueeze(-1) * weft.arange(1.0, 3.0, device=x.device, dtype=x.dtype)
    z = y * y
    z[:, holds] = y[:, other] * 3
    return z


def known(x: weft.Tensor, holds: weft.Tensor, other: weft.Tensor) -> weft.Tensor:
    z = x.t() * 2
    z[:, holds] = x[:1].t() * weft.arange(1.0, 3.0, device=x.device, dtype=x.dtype)
    return z


def one_column(x: weft.Tensor, holds: weft.Tensor, other: weft.Tensor) -> weft.Tensor:
    z = x.t() * 2
    z[:, holds] = x[:1].t() ** 2
    return z


@pytest.mark.parametrize("way", ["compile", "split", "lazy"])
@pytest.mark.parametrize("step", [picked, added, columns, known, one_column])
def test_gradients_of_values(step: Step, way: str, rng: np.random.Generator) -> None:
    def whole(x: weft.Tensor, holds: weft.Tensor, other: weft.Tensor) -> list[weft.Tensor]:
        z = step(x, holds, other)
        (first,) = weft.autograd.grad((z * z * z).sum(), x, create_graph=True)
        return [z.detach(), first.detach(), weft.autograd.grad((first * first).sum(), x)[0]]

    run = whole if way == "lazy" else weft.compile(whole, split=way == "split")
    for rows in (2, 1, 2):
        n = int(rng.integers(3, 7))
        masks = [np.isin(np.arange(n), rng.permutation(n)[:k]) for k in (2, rows)]
        arrays = (rng.uniform(-1, 1, (n, 3)), *masks)
        seen = []
        for function, device in ((run, "lazy" if way == "lazy" else "cpu"), (whole, "cpu")):
            x, holds, other = (weft.tensor(a, device=device) for a in arrays)
            seen.append([t.to("cpu").numpy() for t in function(x.requires_grad_(), holds, other)])
        for got, wanted in zip(*seen, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-10)


def test_gradient_of_one_row_in_closed_form() -> None:
    """z = 2 x, but 3 x[2] at places 0 and 1: the gradient of g z is 3 (g0 + g1) + 2 g2 at place 2."""

    def step(x: weft.Tensor, holds: weft.Tensor, other: weft.Tensor) -> weft.Tensor:
        z = picked(x, holds, other)
        (z * weft.arange(1.0, 4.0)).sum().backward()
        return z

    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    weft.compile(step)(x, weft.tensor([True, True, False]), weft.tensor([False, False, True]))
    assert x.grad.tolist() == [0.0, 0.0, 6.0 + 3.0 * 3.0]
