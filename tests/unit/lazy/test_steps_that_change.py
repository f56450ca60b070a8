"""Training steps that do not stay the same: two optimizers, tied weights, gradients that pile up, frozen layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft import lazy, nn
from weft.nn import functional as F

Wrap = Callable[[Any], Any]


def _two_players(device: str, wrap: Wrap, sizes: list[int]) -> list[float]:
    maker = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.LeakyReLU(), nn.Linear(5, 4)).to(device)
    judge = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 1)).to(device)
    first, second = weft.optim.NAdam(maker.parameters(), lr=0.01), weft.optim.RAdam(judge.parameters(), lr=0.01)

    def step(z: Any, x: Any) -> Any:
        loss = F.binary_cross_entropy_with_logits
        second.zero_grad()
        told = loss(judge(x), weft.ones_like(x[:, :1])) + loss(judge(maker(z).detach()), weft.zeros_like(x[:, :1]))
        told.backward()
        second.step()
        first.zero_grad()
        fooled = loss(judge(maker(z)), weft.ones_like(x[:, :1]))
        fooled.backward()
        first.step()
        return told.detach() + fooled.detach()

    run, losses = wrap(step), []
    for i, n in enumerate(sizes):
        rng = np.random.default_rng(i)
        losses.append(run(*[weft.tensor(rng.standard_normal((n, k)), device=device).float() for k in (3, 4)]).item())
    return losses


def _tied(device: str, wrap: Wrap, sizes: list[int]) -> list[float]:
    words, cell = nn.Embedding(7, 4).to(device), nn.LSTM(4, 4).to(device)
    weights = [*words.parameters(), *cell.parameters()]
    optimizer = weft.optim.SGD(weights, lr=0.1, momentum=0.9, dampening=0.1)

    def step(text: Any, waits: bool) -> Any:
        seen, _ = cell(words(text[:-1]))
        loss = F.cross_entropy(F.linear(seen, words.weight).reshape(-1, 7), text[1:].reshape(-1))
        (loss / 2).backward()
        if not waits:
            nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=bool(text.shape[1] % 2))
        return loss.detach()

    run, losses = wrap(step), []
    for i, n in enumerate(sizes):
        weights[1].requires_grad_(i // 2 != 1)
        text = weft.tensor(np.random.default_rng(i).integers(0, 7, (4, n)), device=device)
        losses.append(run(text, i % 2 == 0).item())
        if device == "lazy" and i % 3:
            lazy.mark_step()
    return losses


@pytest.mark.parametrize("train", [_two_players, _tied])
def test_losses_are_those_of_eager_mode(train: Any, rng: Any) -> None:
    sizes = [int(n) for n in rng.integers(2, 5, 6)]
    found = []
    with weft.knobs(backend="interpret"):
        for device, wrap in (("cpu", None), ("lazy", None), ("cpu", lambda step: deferred(step))):
            weft.manual_seed(sizes[0])
            found.append(train(device, wrap or (lambda step: step), sizes))
    for losses in found[1:]:
        np.testing.assert_allclose(losses, found[0], rtol=1e-4)
