"""A result whose graph the function has run backward through and kept (create_graph, retain_graph) has its history, and
so has an argument that was written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor


def _value_and_slope(v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    z = v**3 * w
    return (z, *weft.autograd.grad(z.sum(), (v,), create_graph=True))


def _written_argument(v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    v.mul_(w)
    return weft.autograd.grad((v**3).sum(), (v, w), create_graph=True)


def _written_under_no_grad(v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    with weft.no_grad():
        v.mul_(w)
    return _value_and_slope(v, w)


def _kept(v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    loss = (v * v * w).sum()
    (slope,) = weft.autograd.grad(loss, w, retain_graph=True)
    return loss, slope


@pytest.mark.parametrize("function", [_value_and_slope, _written_argument, _written_under_no_grad, _kept])
def test_every_result_and_the_argument_have_their_gradients(
    function: Callable[[Tensor, Tensor], tuple[Tensor, ...]], rng: np.random.Generator
) -> None:
    data = rng.uniform(-1, 1, (2, int(rng.integers(2, 6))))

    def gradients(call: Callable[[Tensor, Tensor], tuple[Tensor, ...]]) -> list[list[np.ndarray | None]]:
        found = []
        for i in range(3):
            x, w = (weft.tensor(row).requires_grad_() for row in data)
            v = x * 1
            results = (*call(v, w), v)
            if i < len(results) and results[i].requires_grad:
                grads = weft.autograd.grad(results[i].sum(), (x, w), allow_unused=True)
                found.append([None if g is None else g.numpy() for g in grads])
        return found

    expected, compiled = gradients(function), gradients(weft.compile(function))
    assert len(compiled) == len(expected)
    for row, other in zip(compiled, expected, strict=True):
        for a, b in zip(row, other, strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                np.testing.assert_allclose(a, b, rtol=1e-10)
