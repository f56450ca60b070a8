"""A loop that reads its loss and never says mark_step(): each read once ran all earlier steps again, as a program of
its own, since the values that later calls wait on were not kept. Nor may a loop that reads nothing wait for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import lazy, nn
from weft.lazy import trace
from weft.lazy.backend import lazy_at
from weft.nn import functional as F

STEPS = 7


def _losses(device: str, kind: str, before: bool) -> tuple[list[float], list[int], list[int]]:
    """Of each step the loss, the calls that waited behind the read, and the programs made so far."""
    weft.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    model.to(device)
    optimizer = getattr(weft.optim, kind)(model.parameters(), lr=0.05)
    rng = np.random.default_rng(11)
    losses, waiting, programs = [], [], []
    lazy.metrics.reset()
    for i in range(STEPS):
        x = weft.tensor(rng.standard_normal((3 + i, 4)), device=device).float()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x[:, :2])
        if before:
            losses.append(loss.item())
        loss.backward()
        optimizer.step()
        if not before:
            losses.append(loss.item())
        if device == "lazy":
            waiting.append(lazy.debug.queue_length(next(model.parameters())))
            programs.append(lazy.metrics.counter_value("UncachedCompile") or 0)
    return losses, waiting, programs


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
@pytest.mark.parametrize("before", [False, True])
def test_steps_that_only_a_read_ends_are_done_once(kind: str, before: bool) -> None:
    expected, _, _ = _losses("cpu", kind, before)
    losses, waiting, programs = _losses("lazy", kind, before)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
    assert max(waiting[2:]) == min(waiting[2:]), waiting
    assert programs[-1] == programs[3] <= 3, programs


@pytest.mark.parametrize("hidden", [1, 3])
def test_loops_that_read_nothing_run_in_equal_parts(hidden: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "ENOUGH", 40)
    monkeypatch.setattr(trace, "LONGEST", 160)
    totals = []
    for device in ("cpu", "lazy"):
        weft.manual_seed(5)
        layers = [m for _ in range(hidden) for m in (nn.Linear(4, 4), nn.GELU())]
        model = nn.Sequential(*layers, nn.Linear(4, 1)).to(device)
        optimizer = weft.optim.Adam(model.parameters(), lr=0.01)
        x, total = weft.arange(12.0).reshape(3, 4).to(device) / 12, weft.zeros(()).to(device)
        lazy.metrics.reset()
        for _ in range(200):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            total = total + loss.detach()
        if device == "lazy":
            made = lazy.metrics.counter_value("UncachedCompile") or 0
            assert 0 < made <= 4 and len(lazy_at(0).where.trace.nodes) <= 160, made
        totals.append(total.item())
    assert totals[1] == pytest.approx(totals[0], rel=1e-4)


def test_values_between_a_read_and_what_waits_are_computed_once() -> None:
    ran: list[int] = []

    @weft.library.custom_op(f"mine::once_{id(ran)}", mutates_args=())
    def once(x: weft.Tensor) -> weft.Tensor:
        ran.append(len(x))
        return x * 2

    @once.register_fake
    def _(x: weft.Tensor) -> weft.Tensor:
        return weft.empty_like(x)

    x = weft.arange(5.0).to("lazy")
    middle: Any = once(x).sin()
    later = middle + 1
    read = middle.sum()
    del middle
    assert read.item() == pytest.approx(np.sin(np.arange(5.0) * 2).sum(), rel=1e-5)
    np.testing.assert_allclose(later.cpu().numpy(), np.sin(np.arange(5.0) * 2) + 1, rtol=1e-5)
    assert ran == [5]
