"""A compiled step within a checkpoint: the second run ends when everything saved is there, and by then the step has
been made, with all that it assigns."""

from __future__ import annotations

import pytest

import weft
from weft.utils.checkpoint import checkpoint


class Model(weft.nn.Module):
    kept: weft.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = weft.nn.Parameter(weft.tensor(0.7))
        self.mean = weft.zeros(())
        self.register_buffer("kept", weft.ones(()))
        self.count = 0

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        self.mean.mul_(0.9).add_(x.detach().mean())
        self.kept = self.kept * 0.5 + x.detach().sum()
        self.count += 1
        return x * self.w


@pytest.mark.parametrize("split", [False, True])
def test_written_and_assigned_state_agree(split: bool) -> None:
    def numbers(compiled: bool) -> list[float]:
        m = Model()
        body = weft.compile(m, split=split) if compiled else m
        out: list[float] = []
        for size in (4, 4, 2, 5):
            x = weft.linspace(-1.0, 1.5, size).requires_grad_()
            checkpoint(body, x, use_reentrant=False).sum().backward()
            out += [m.mean.item(), m.kept.item(), m.count]
        return out

    assert numbers(True) == pytest.approx(numbers(False))
