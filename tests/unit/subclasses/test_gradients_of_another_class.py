"""Gradients whose class is not their leaf's, in a compiled step and through a compiled forward: as in eager mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wrappers import Two, drawn

import weft


class Bare(weft.autograd.Function):
    """A Two as a plain tensor, whose gradient stays plain."""

    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        return t.a + t.b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_a_plain_parameter_is_trained_beside_wrappers(rng: np.random.Generator) -> None:
    start, rate = rng.standard_normal((2, 3)), float(rng.uniform(0.1, 0.2))
    w = weft.nn.Parameter(weft.tensor(start))
    opt = weft.optim.SGD([w], lr=rate)

    def step(x: Two) -> None:
        opt.zero_grad()
        ((w * x).square() / 2).sum().backward()
        opt.step()

    compiled = weft.compile(step)
    for _ in range(3):
        a, b = (t.detach() for t in drawn(rng, 2, 3))
        compiled(Two(a, b))
        assert type(w.grad) is Two
        np.testing.assert_allclose(w.grad.a.numpy(), start * a.numpy() ** 2)
        np.testing.assert_allclose(w.grad.b.numpy(), start * b.numpy() ** 2)
        start = start - rate * (w.grad.a.numpy() + w.grad.b.numpy())  # what the class makes of a write into w
        np.testing.assert_allclose(w.detach().numpy(), start)


@pytest.mark.parametrize("whole_step", [True, False])
def test_a_wrapper_with_a_plain_gradient(whole_step: bool, rng: np.random.Generator) -> None:
    x = Two(*drawn(rng, 2, 3)).requires_grad_()

    def loss(t: Two) -> weft.Tensor:
        return Bare.apply(t).sum()

    def step(t: Two) -> None:
        loss(t).backward()

    for _ in range(2):
        x.grad = None
        if whole_step:
            weft.compile(step)(x)
        else:
            weft.compile(loss)(x).backward()
        assert type(x.grad) is weft.Tensor
        np.testing.assert_allclose(x.grad.numpy(), np.full((2, 3), 2.0))


def _set_anew(w: Any, x: Two) -> Any:
    w.grad = None
    (w * x).square().sum().backward()
    return w.grad


def _trained(w: Any, x: Two) -> None:
    (w * x).sum().backward()
    with weft.no_grad():
        w.sub_(w.grad.a * 0.5)
    w.grad = None


def _added_up(w: Any, x: Two) -> None:
    (w * x).sum().backward()
    (w * 3).sum().backward()


@pytest.mark.parametrize("function", [_set_anew, _trained, _added_up])
@pytest.mark.parametrize("is_parameter", [False, True])
def test_the_argument_of_each_call_gets_it(is_parameter: bool, function: Any, rng: np.random.Generator) -> None:
    """A plain leaf ran as it is written, and the gradient of another Parameter than the first went there."""
    compiled, captures = weft.compile(function), weft.counters.captures
    for _ in range(3):
        values, x = rng.standard_normal((2, 3)), Two(*(t.detach() for t in drawn(rng, 2, 3)))
        notes = []
        for call in (function, compiled):
            w = weft.tensor(values).requires_grad_()
            w = weft.nn.Parameter(w) if is_parameter else w
            out = call(w, x)
            assert out is w.grad or out is None
            notes.append([*([] if w.grad is None else [w.grad.a.tolist(), w.grad.b.tolist()]), w.tolist()])
        np.testing.assert_allclose(*notes)
    assert weft.counters.captures == captures + 1 and not compiled.misses
