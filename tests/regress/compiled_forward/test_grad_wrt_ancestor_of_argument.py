"""A gradient that is asked for of a tensor with a history, of which another argument was made before the call: it flows
through that one too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def _losses(h: weft.Tensor, made: weft.Tensor) -> weft.Tensor:
    return h.sum() + (made * made).sum()


@pytest.mark.parametrize("make", [lambda h: h * 3, lambda h: h[1:], lambda h: h.view(2, -1)[0]])
def test_of_an_argument(make: Any, rng: np.random.Generator) -> None:
    f = weft.compile(lambda h, made: weft.autograd.grad(_losses(h, made), h)[0])
    for _ in range(3):
        h = weft.from_numpy(rng.standard_normal(6)).requires_grad_() * 2
        made = make(h)
        expected = weft.autograd.grad(_losses(h, made), h, retain_graph=True)[0]
        np.testing.assert_allclose(f(h, made).numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("make", [lambda h: h * 3, lambda h: h[1:]])
def test_of_state(make: Any, rng: np.random.Generator) -> None:
    h = weft.from_numpy(rng.standard_normal(6)).requires_grad_() * 2
    f = weft.compile(lambda made: weft.autograd.grad(_losses(h, made), h, retain_graph=True)[0])
    for _ in range(2):
        made = make(h)
        expected = weft.autograd.grad(_losses(h, made), h, retain_graph=True)[0]
        np.testing.assert_allclose(f(made).numpy(), expected.numpy(), rtol=1e-12)


def test_others_of_the_same_node_are_programs(rng: np.random.Generator) -> None:
    f = weft.compile(lambda h, other: weft.autograd.grad(_losses(h, other), h)[0])
    weft.counters.reset()
    for _ in range(2):
        h, other = (weft.from_numpy(rng.standard_normal((2, 3))).requires_grad_() * 2).unbind(0)
        np.testing.assert_array_equal(f(h, other).numpy(), np.ones(3))
    assert weft.counters.captures == 1 and len(f.entries) == 1
