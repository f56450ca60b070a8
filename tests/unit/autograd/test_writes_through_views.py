"""Gradients of writes through views: by NumPy (no history wanted) as by operators (history wanted),
and as central differences say."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import weft

VIEWS: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "select": lambda t: t[random.randrange(4)],
    "slice": lambda t: t[:, ::2],
    "transposed": lambda t: t.t()[1:3],
    "view": lambda t: t.view(2, 2, 4)[:, 1],
    "diagonal": lambda t: t.diagonal(),
    "unsqueezed": lambda t: t.unsqueeze(0).transpose(1, 2)[0, 1],
    "strided": lambda t: t.as_strided((2, 3), (5, 1), 1),
    "alias": lambda t: t.view(4, 4),
}
WRITES: dict[str, Callable[[weft.Tensor, weft.Tensor], object]] = {
    "mul_": lambda v, w: v.mul_(w.mean()),
    "add_": lambda v, w: v.add_(w.sum()),
    "copy_": lambda v, w: v.copy_(w[0, 0].expand(v.shape)),
    "fill_": lambda v, w: v.fill_(2.0),
    "exp_": lambda v, w: v.exp_(),
    "zero_": lambda v, w: v.zero_(),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_gradients_with_and_without_history(view: str, write: str) -> None:
    seed = random.randrange(1 << 30)
    x0, w0, g = (np.random.default_rng(seed + i).standard_normal((4, 4)) for i in range(3))

    def loss(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
        random.seed(seed)
        base = (x * 1.5).sin()
        WRITES[write](VIEWS[view](base), w)
        return (base * weft.tensor(g)).sum()

    x, w = weft.tensor(x0, requires_grad=True), weft.tensor(w0, requires_grad=True)
    plain = weft.autograd.grad(loss(x, w), [x, w], allow_unused=True)
    recorded = weft.autograd.grad(loss(x, w), [x, w], allow_unused=True, create_graph=True)
    for a, b in zip(plain, recorded, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-14)
    i, j = random.Random(seed).randrange(4), random.Random(seed + 1).randrange(4)
    step = np.zeros((4, 4))
    step[i, j] = 1e-6
    for k, found in enumerate(plain):
        ends = [loss(*[weft.tensor(v + s * step * (k == n)) for n, v in enumerate((x0, w0))]).item() for s in (1, -1)]
        assert (
            (0.0 if found is None else found[i, j].item())
            == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6)
        )


def test_the_gradient_that_flows_in_is_not_written() -> None:
    x = weft.ones(4, requires_grad=True)
    y = x * 1.0
    y[1:].mul_(3.0)
    g = weft.ones(4)
    y.backward(g)
    assert g.tolist() == [1, 1, 1, 1]
    assert x.grad is not None
    assert x.grad.tolist() == [1, 3, 3, 3]


def test_gradients_of_a_shared_write_do_not_share_memory() -> None:
    x, w = weft.ones(4, requires_grad=True), weft.ones(2, requires_grad=True)
    y = x * 1.0
    y[:2].add_(w)
    y.sum().backward()
    assert x.grad is not None
    assert w.grad is not None
    w.grad.zero_()
    assert x.grad.tolist() == [1, 1, 1, 1]
