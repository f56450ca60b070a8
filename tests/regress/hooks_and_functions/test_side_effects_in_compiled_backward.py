"""The backward of a compiled model was recorded with nobody watching the custom Functions and hooks in it: what they
printed and appended happened once, when the model was captured. And a question for a value whose refusal the code
caught chose the way of the handler for good."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function, grad
from weft.support.errors import CaptureError

LOG: list[Any] = []


class Noted(Function):
    count = 0

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        LOG.append(tuple(g.shape))
        Noted.count += 1
        return g * 2


def test_a_custom_backward_runs_as_often_as_backward_is_called(rng: np.random.Generator) -> None:
    LOG.clear()
    Noted.count = 0
    model = weft.compile(lambda x: Noted.apply(x).sum())
    sizes = [int(n) for n in rng.integers(1, 20, 3)]
    for i, n in enumerate(sizes):
        x = weft.ones(n, requires_grad=True)
        y = model(x)
        assert len(LOG) == i  # not when the model is called
        assert grad(y, x)[0].tolist() == [2.0] * n
    assert [n for (n,) in LOG] == sizes and Noted.count == 3


def test_a_hook_within_a_model_prints_at_each_backward(capsys: pytest.CaptureFixture[str]) -> None:
    def run(x: weft.Tensor) -> weft.Tensor:
        y = x * 3
        y.register_hook(lambda g: print("hook", g.shape[0]))
        return y.sum()

    model = weft.compile(run)
    for n in (2, 3):
        loss = model(weft.ones(n, requires_grad=True))
        assert capsys.readouterr().out == ""
        loss.backward()
        assert capsys.readouterr().out == f"hook {n}\n"


def test_a_swallowed_refusal_is_one() -> None:
    def run(x: weft.Tensor) -> weft.Tensor:
        try:
            return x if float(x.sum()) > 0 else -x
        except RuntimeError:
            return x * 100

    with pytest.raises(CaptureError, match="its value"):
        weft.compile(run)(weft.ones(2))


FACTOR = 2.0


class Settings:
    factor = 3.0


settings = Settings()


class Multiplied(Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        return g * FACTOR * settings.factor


def hooked(x: weft.Tensor) -> weft.Tensor:
    y = x * 1
    y.register_hook(lambda g: g * FACTOR * settings.factor)
    return y.sum()


@pytest.mark.parametrize("run", [lambda x: Multiplied.apply(x).sum(), hooked], ids=["function", "hook"])
def test_what_a_recorded_backward_reads_of_python_is_guarded(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    model = weft.compile(run)
    x = weft.ones(3, requires_grad=True)
    for _ in range(4):
        first, second = (float(v) for v in rng.standard_normal(2))
        monkeypatch.setitem(globals(), "FACTOR", first)
        monkeypatch.setattr(settings, "factor", second)
        np.testing.assert_allclose(grad(model(x), x)[0].numpy(), first * second, rtol=1e-6)
    assert len(model.entries) <= 3  # numbers that change become inputs
