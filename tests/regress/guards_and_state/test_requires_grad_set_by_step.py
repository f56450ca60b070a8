"""requires_grad that a compiled step sets on tensors from outside: the first call alone set it, or the capture failed.
A parameter may be frozen for a part of a step, from a step on, or by turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn


class Holder:
    """An object older than the calls."""


def by_turns(h: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        h.p.requires_grad_(not h.p.requires_grad)
        return x * h.p

    return step


def by_a_flag(h: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        h.flag = not h.flag
        h.p.requires_grad = h.flag
        return x * 2

    return step


def for_a_part(h: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        h.p.requires_grad = False
        y = x * h.p
        h.p.requires_grad = True
        z = y + x * x * h.p
        h.p.requires_grad = False
        z.sum().backward(retain_graph=True)
        return z

    return step


@pytest.mark.parametrize("make", [by_turns, by_a_flag, for_a_part])
@pytest.mark.parametrize("split", [False, True])
def test_flags_and_gradients(make: Callable[[Any], Any], split: bool) -> None:
    seen = []
    for wrap in (lambda f: f, lambda f: weft.compile(f, backend="interpret", split=split)):
        h, notes = Holder(), []
        h.p, h.flag = weft.tensor([0.5], requires_grad=True), True  # type: ignore[attr-defined]
        step = wrap(make(h))
        for call, n in enumerate((3, 3, 5, 2, 4)):
            y = step(weft.ones(n, requires_grad=True))
            notes.append((h.p.requires_grad, y.requires_grad, h.p.grad is None))  # type: ignore[attr-defined]
            if call % 2:
                h.p.requires_grad_()  # type: ignore[attr-defined]
            y.sum().backward()
            notes.append(None if h.p.grad is None else h.p.grad.tolist())  # type: ignore[attr-defined]
        seen.append(notes)
    assert seen[1] == seen[0]


def test_two_networks_by_turns(rng: np.random.Generator) -> None:
    draws = [rng.standard_normal((2, n, 2)) for n in (3, 3, 5, 2, 7)]

    def run(wrap: Callable[[Any], Any]) -> list[float]:
        weft.manual_seed(0)
        maker, judge = nn.Linear(2, 2).double(), nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
        optimizers = weft.optim.Adam(maker.parameters(), lr=0.1), weft.optim.SGD(judge.parameters(), lr=0.1)

        def step(z: Any, real: Any) -> Any:
            for p in judge.parameters():
                p.requires_grad = True
            judge.zero_grad()
            (judge(maker(z).detach()).mean() - judge(real).mean()).backward()
            optimizers[1].step()
            judge.requires_grad_(False)
            maker.zero_grad()
            loss = -judge(maker(z)).mean()
            loss.backward()
            optimizers[0].step()
            return loss

        step = wrap(step)
        losses = [float(step(weft.tensor(z), weft.tensor(real))) for z, real in draws]
        parameters = [*maker.parameters(), *judge.parameters()]
        assert [p.requires_grad for p in parameters] == [True] * 2 + [False] * 4
        return losses + [float(p.sum()) for p in parameters]

    weft.counters.reset()
    compiled = run(weft.compile)
    assert weft.counters.captures == 2  # with and without frozen parameters
    np.testing.assert_allclose(compiled, run(lambda f: f), rtol=1e-9)


def test_a_failed_capture_leaves_the_flag() -> None:
    p = weft.ones(2, requires_grad=True)

    @weft.compile
    def step(x: Any) -> Any:
        p.requires_grad_(False)
        return x[7]

    with pytest.raises(IndexError):
        step(weft.ones(2))
    assert p.requires_grad


def test_a_branch_sets_no_flag() -> None:
    p = weft.ones(2, requires_grad=True)

    def branch(v: Any) -> Any:
        p.requires_grad_(False)
        return v * 2

    with pytest.raises(weft.WeftError, match="sets requires_grad"):
        weft.compile(lambda x: weft.cond(x.sum() > 0, branch, lambda v: v, (x,)))(weft.ones(2))
    assert p.requires_grad
