"""zero_grad(set_to_none=False) in a step: one program, whether gradients are there already or not; the objects stay."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor, nn


class Trained:
    def __init__(self, model: nn.Module, wrap: Callable[[Any], Any], kind: str) -> None:
        self.model, self.spare = model, nn.Parameter(weft.ones(2))
        self.opt = weft.optim.SGD([*model.parameters(), self.spare], lr=0.1, momentum=0.9)
        self.kind = kind
        self.step = wrap(self._step())

    def _step(self) -> Callable[[Tensor], Tensor]:
        model, opt, kind = self.model, self.opt, self.kind

        def step(x: Tensor) -> Tensor:
            if kind == "optimizer":
                opt.zero_grad(set_to_none=False)
            else:
                model.zero_grad(set_to_none=False)
            if kind == "looks":
                assert all(p.grad is None or p.grad.shape == p.shape for p in model.parameters())
            if kind == "forgets":
                for p in model.parameters():
                    p.grad = None
            loss = model(x).square().mean()
            loss.backward()
            if kind == "twice":
                model(x).sum().backward()
            opt.step()
            return loss

        return step


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("kind", ["optimizer", "module", "twice", "looks", "forgets"])
def test_gradients_keep_their_objects(kind: str, backend: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    eager, mine = Trained(copy.deepcopy(model), lambda f: f, kind), Trained(
        model, lambda f: weft.compile(f, backend=backend), kind
    )
    held: list[Any] = [None] * 4
    for call in range(5):
        x = weft.randn(2 + call, 3)
        weft.testing.assert_close(mine.step(x).detach(), eager.step(x).detach())
        for i, (p, q) in enumerate(zip(mine.model.parameters(), eager.model.parameters(), strict=True)):
            weft.testing.assert_close(p, q)
            weft.testing.assert_close(p.grad, q.grad)
            assert kind == "forgets" or held[i] is None or held[i] is p.grad
            held[i] = p.grad
        assert mine.spare.grad is None
        if call == 2:
            for trained in (eager, mine):
                trained.opt.zero_grad()
            held = [None] * 4
    assert len(mine.step.misses) <= (1 if kind in ("looks", "forgets") else 0), mine.step.misses


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_a_step_that_only_zeroes(backend: str) -> None:
    w = weft.ones(3, requires_grad=True)
    opt = weft.optim.SGD([w], lr=0.1)
    clear = weft.compile(lambda: opt.zero_grad(set_to_none=False), backend=backend)
    clear()
    assert w.grad is None
    for _ in range(2):
        kept = w.grad = weft.ones(3)
        clear()
        assert w.grad is kept and weft.equal(kept, weft.zeros(3))
