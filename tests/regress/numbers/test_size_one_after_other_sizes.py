"""Sizes of 1 that come after other sizes: gradients of what was broadcast do not hang on them,
so that one program serves them too."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor, nn

Sizes = list[tuple[int, ...]]


def _tokens(x: Tensor, first: Tensor) -> Tensor:
    return weft.cat([first.expand(x.shape[0], -1, -1), x], 1)


PROGRAMS: dict[str, tuple[Callable[..., Tensor], Callable[[int, int], Sizes]]] = {
    "positions": (lambda x, p: x + p.unsqueeze(0), lambda b, n: [(b, n, 3), (n, 3)]),
    "channels": (lambda x, p: x * p.view(1, -1, 1), lambda b, n: [(b, n, 3), (n,)]),
    "outer": (lambda x, p: x[:, None] * p[None], lambda b, n: [(b,), (n,)]),
    "kept dims": (lambda x, p: x - x.mean(1, keepdim=True) + p, lambda b, n: [(b, n), (b, n)]),
    "a row for all": (lambda x, p: x + p, lambda b, n: [(b, n, 3), (1, n, 3)]),
    "a token for all": (_tokens, lambda b, n: [(b, n, 3), (1, 1, 3)]),
    "softmax": (lambda x, p: (x.softmax(-1) * p).sum(1, keepdim=True) + x, lambda b, n: [(b, n), (b, n)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_broadcast_gradients_do_not_hang_on_sizes_of_one(name: str) -> None:
    function, sizes = PROGRAMS[name]

    def step(*leaves: Tensor) -> Tensor:
        loss = function(*leaves).square().sum()
        loss.backward()
        return loss.detach()

    compiled = weft.compile(step)
    rng = random.Random(os.environ["WEFT_TEST_SEED"])
    drawn = [(rng.randrange(2, 7), rng.randrange(2, 7)), (1, rng.randrange(2, 5)), (rng.randrange(2, 5), 1), (1, 1)]
    if name == "a row for all" or name == "a token for all":
        drawn = drawn[:2]
    for b, n in drawn:
        mine = [weft.randn(*size).requires_grad_() for size in sizes(b, n)]
        theirs = [t.detach().clone().requires_grad_() for t in mine]
        weft.testing.assert_close(compiled(*mine), step(*theirs))
        for a, e in zip(mine, theirs, strict=True):
            weft.testing.assert_close(a.grad, e.grad)
    assert not compiled.misses


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "conv": lambda: nn.Conv2d(2, 4, 3, padding=1),
    "transposed": lambda: nn.ConvTranspose2d(2, 3, 4, stride=2),
    "norms": lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.BatchNorm2d(4), nn.MaxPool2d(2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_convolutions_take_a_batch_of_one(name: str) -> None:
    layer = LAYERS[name]()

    @weft.compile
    def step(x: Any) -> Any:
        layer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        return loss.detach()

    for b in (random.randrange(2, 5), 1, 3):
        step(weft.randn(b, 2, 8, 8))
    assert not step.misses
