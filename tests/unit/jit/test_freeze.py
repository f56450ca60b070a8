"""freeze: what a Module holds becomes constants; a program that writes any of it is refused by name and line."""

from __future__ import annotations

import io

import numpy as np
import pytest

import weft
import weft.jit
from weft import Tensor, nn
from weft.support.errors import StateError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
        self.register_buffer("shift", weft.ones(2))
        self.scale, self.names, self.calls = 2, ["a", "b"], 0
        self.items: list[int] = [1]

    def forward(self, x: Tensor, n: int = 3) -> Tensor:
        if self.training:
            self.calls += 1
        return self.rest(self.drop(self.norm(self.first(x)))) * self.scale * len(self.names) + self.shift * n

    @weft.jit.export
    def half(self, x: Tensor) -> Tensor:
        return self.first(x) / 2


class Counting(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


class Shifting(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.shift[0] = 1
        return x


class Adding(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.first.bias.view(-1).add_(1)
        return x


def test_a_frozen_module_keeps_what_it_was_made_of() -> None:
    scripted = weft.jit.script(Net()).eval()
    x = weft.randn(4, 3)
    frozen = weft.jit.freeze(scripted, ["half", "scale"])
    before, half = scripted(x), scripted.half(x)
    assert np.allclose(frozen(x).detach(), before.detach()) and not list(frozen.parameters())
    assert "training" not in str(frozen.graph).replace("training=False", "")
    with weft.no_grad():
        scripted.first.weight.zero_()
        scripted.shift.zero_()
    scripted.scale = 7
    assert np.allclose(frozen(x).detach(), before.detach()) and frozen.scale == 2
    assert np.allclose(frozen.half(x).detach(), half.detach())
    file = io.BytesIO()
    weft.jit.save(frozen, file)
    file.seek(0)
    assert np.allclose(weft.jit.load(file)(x, n=3).detach(), before.detach())


@pytest.mark.parametrize("cls, name", [(Counting, "calls"), (Shifting, "shift"), (Adding, "first.bias")])
def test_a_program_that_writes_what_it_holds_is_refused(cls, name) -> None:
    with pytest.raises(StateError, match=rf"the program writes self\.{name} \(.*test_freeze.py:\d+\)"):
        weft.jit.freeze(weft.jit.script(cls()).eval())


def test_a_module_in_training_mode_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"call \.eval\(\) first"):
        weft.jit.freeze(weft.jit.script(Net()))
    with pytest.raises(TypeError, match="takes a scripted Module, not Net"):
        weft.jit.freeze(Net())


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.names = {"a": [weft.ones(2)], "b": [weft.zeros(2), weft.ones(2)]}

    @weft.jit.export
    def told(self, x: Tensor) -> Tensor:
        for key, values in self.names.items():
            x = x + len(key) * values[-1]
        return x


def test_dicts_are_constants_and_forward_may_be_missing() -> None:
    scripted = weft.jit.script(Named()).eval()
    frozen = weft.jit.freeze(scripted, ["told"])
    scripted.names["a"].append(weft.full((2,), 9.0))
    del scripted.names["b"]
    file = io.BytesIO()
    weft.jit.save(frozen, file)
    file.seek(0)
    for one in (frozen, weft.jit.load(file)):
        assert one.told(weft.zeros(2)).tolist() == [2.0, 2.0]


def test_a_layer_that_a_trace_calls_as_it_is_is_frozen_too() -> None:
    """A recurrent layer is a call of a Module's: the frozen program has a copy, and a file holds it."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.cell(x)[0])

    model = Recurrent().eval()
    frozen = weft.jit.freeze(weft.jit.trace(model, (weft.rand(1, 3, 3),)))
    file = io.BytesIO()
    weft.jit.save(frozen, file)
    file.seek(0)
    x = weft.rand(2, 5, 3)
    before = model(x).detach()
    with weft.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    for way in (frozen, weft.jit.load(file)):
        assert weft.allclose(way(x), before)
        assert not list(way.parameters())
        assert not way(x).requires_grad
