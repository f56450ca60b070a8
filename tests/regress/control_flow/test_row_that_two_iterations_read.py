"""A row that one iteration reads and the next one too stands in one of them where nodes are put in another order to be
folded: it was read there before it was computed (KeyError)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("steps", [5, 8, 40])
def test_rows_read_in_two_iterations(steps: int) -> None:
    def step(p: weft.Tensor, x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        loss, s = weft.tensor(0.0), y * p.sum()
        for t in range(steps):
            later = -x[t + 1]
            _ = x[steps - 1 - t] + weft.where(x[t] > 0, x[t], x[t] * 0.1)
            both = weft.max(weft.stack([x[t], later]), 0).values
            loss = loss + (both**2).sum()
            for k in range(4):
                s = s * 0.9 + x[k] * 0.1
        loss = loss + s.sum()
        loss.backward()
        return loss

    def seen(function: Callable[..., Any], fold: str) -> list[weft.Tensor | None]:
        weft.manual_seed(0)
        p, x = weft.randn(4).requires_grad_(), weft.randn(steps + 1, 4).requires_grad_()
        with weft.knobs(fold=fold, check=1):
            loss = function(p, x, weft.randn(4))
        return [loss.detach(), p.grad, x.grad]

    for fold in ("on", "all"):
        weft.testing.assert_close(seen(weft.compile(step), fold), seen(step, fold), rtol=1e-4, atol=1e-4)
