"""A captured backward of views alone gives the leaf memory of its own, not the tensor that the caller began with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


def test_gradients_handed_over_are_nobody_elses():
    for shape in (lambda x: x.view(-1), lambda x: x.view(3, 1), lambda x: x.view(3), lambda x: x[None]):
        for compiler in (ca.native, ca.interpret):
            x = weft.randn(3, requires_grad=True)
            seed = weft.ones(shape(x).shape)
            for _ in range(2):
                with ca.enable(compiler):
                    shape(x).backward(seed)
                assert x.grad.data_ptr() != seed.data_ptr()
            np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))
            np.testing.assert_array_equal(seed.numpy(), np.ones(seed.shape))


def test_nor_one_anothers():
    for _ in range(2):
        x, y = weft.randn(3, requires_grad=True), weft.randn(3, requires_grad=True)
        with ca.enable():
            ((x.view(-1) + y) * 2).backward(weft.ones(3))
        assert not np.shares_memory(x.grad.numpy(), y.grad.numpy())


@pytest.mark.parametrize("walk", [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)])
def test_what_a_function_hands_on_is_taken_by_one_leaf(walk: Any, rng: np.random.Generator) -> None:
    places = []

    class HandsOn(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            places.append(g.data_ptr())
            return g, g

    a, b = (weft.from_numpy(rng.standard_normal(int(n))).requires_grad_() for n in rng.integers(2, 9, 1).repeat(2))
    with walk():
        HandsOn.apply(a, b).sin().sum().backward()
    assert sorted([a.grad.data_ptr() == places[0], b.grad.data_ptr() == places[0]]) == [False, True]
    a.grad.zero_()
    assert b.grad.abs().sum() > 0
