"""A shallow copy of a scripted Module ran its methods on the original: eval() of the copy had no effect."""

from __future__ import annotations

import copy

import pytest

import weft
from weft import nn


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = 1.5

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.linear(x) * self.scale if self.training else x


@pytest.mark.parametrize("form", [weft.jit.script, lambda m: nn.Sequential(weft.jit.script(m))[0]])
def test_a_copy_has_its_own_flags(form) -> None:
    module, x = form(Scaled()), weft.randn(2, 3)
    duplicate = copy.copy(module)
    duplicate.eval()
    duplicate.scale = 3.0
    assert module.training and module.scale == 1.5
    assert duplicate(x).tolist() == x.tolist()
    assert module(x).tolist() == (module.linear(x) * 1.5).tolist()
    assert duplicate.train()(x).tolist() == (module.linear(x) * 3.0).tolist()
    assert duplicate.linear.weight is module.linear.weight
