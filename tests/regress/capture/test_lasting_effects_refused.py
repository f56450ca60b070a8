"""What would last longer than the call and be done once only is refused by line, and undone: hooks, new memory,
optimizers, schedulers, rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.autograd.hooks import hooks_on
from weft.support.errors import CaptureError


class Setting:
    def __init__(self) -> None:
        self.w = weft.nn.Parameter(weft.ones(3))
        self.opt = weft.optim.SGD([self.w], lr=0.5, momentum=0.9)
        self.schedule = weft.optim.lr_scheduler.CosineAnnealingLR(self.opt, 10)

    def hook(self) -> None:
        self.w.register_hook(lambda g: g * 2)

    def post_hook(self) -> None:
        self.w.register_post_accumulate_grad_hook(lambda p: None)

    def new_data(self) -> None:
        self.w.data = self.w.data * 0.5

    def new_optimizer(self) -> None:
        weft.optim.SGD([self.w], lr=0.1)

    def new_group(self) -> None:
        self.opt.add_param_group({"params": [weft.nn.Parameter(weft.ones(1))]})

    def rate(self) -> None:
        for group in self.opt.param_groups:
            group["lr"] *= 0.5

    def new_option(self) -> None:
        self.opt.param_groups[0]["mine"] = 1

    def scheduler(self) -> None:
        self.schedule.step()


DEEDS: dict[str, Callable[[Setting], None]] = {
    name: getattr(Setting, name)
    for name in ("hook", "post_hook", "new_data", "new_optimizer", "new_group", "rate", "new_option", "scheduler")
}


@pytest.mark.parametrize("name", DEEDS)
def test_refused_and_undone(name: str) -> None:
    setting = Setting()

    def step(x: weft.Tensor) -> Any:
        DEEDS[name](setting)
        (setting.w * x).sum().backward()
        return x * 2

    before = (
        hooks_on(setting.w), dict(setting.opt.param_groups[0]), len(setting.opt.param_groups),
        setting.schedule.last_epoch,
    )
    with pytest.raises(CaptureError, match=r"test_lasting_effects_refused.py:\d+:? "):
        weft.compile(step)(weft.ones(3))
    assert (hooks_on(
        setting.w
    ), dict(setting.opt.param_groups[0]), len(setting.opt.param_groups), setting.schedule.last_epoch) == before
    assert setting.w.tolist() == [1.0] * 3
    assert setting.w.grad is None


def test_a_hook_that_is_removed_again() -> None:
    w = weft.ones(3, requires_grad=True)

    def step(x: weft.Tensor) -> Any:
        handle = w.register_hook(lambda g: g * 3)
        (w * x).sum().backward()
        handle.remove()
        out = w.grad
        w.grad = None
        return out

    run = weft.compile(step)
    for _ in range(2):
        assert run(weft.full((3,), 2.0)).tolist() == [6.0] * 3
