"""Loops that only their condition ends: native forwards and backwards, at every order, for every count of steps."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit


def shrinking(x, w):
    return weft.while_loop(lambda y: (y * y).sum() > 0.5, lambda y: (y * w,), (x,))[0]


def two_in_a_row(x, w):
    y, n = weft.while_loop(lambda y, n: y.sum() < 20, lambda y, n: (y * 1.5 + w * w, n + 1), (x * x, 0))
    z = weft.while_loop(lambda z, k: k < n, lambda z, k: (z * w.tanh() + y, k + 1), (x, 0))[0]
    return y.sin() + z


def with_a_branch(x, w):
    def body(y, n):
        return weft.cond(y[0] > 0, lambda: y * w - 0.3, lambda: y * 0.5 + w), n + 1

    return weft.while_loop(lambda y, n: (y.abs().sum() > 1) & (n < 9), body, (x, 0))[0].t()


FUNCTIONS = (shrinking, two_in_a_row, with_a_branch)


def orders(function, x, w):
    leaves = [weft.tensor(v, requires_grad=True) for v in (x, w)]
    out = function(*leaves)
    first = weft.autograd.grad(out.sum(), leaves, create_graph=True, allow_unused=True)
    flowing = [g for g in first if g is not None and g.requires_grad]
    second = weft.autograd.grad(sum((g * g).sum() for g in flowing), leaves, allow_unused=True) if flowing else ()
    return [np.zeros(x.shape) if v is None else v.detach().numpy() for v in (out, *first, *second)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_both_orders_are_native_and_one_program_serves_every_count(function, rng) -> None:
    compiled = weft.compile(function)
    for size in (2, 3):
        orders(compiled, rng.uniform(0.5, 2, size), rng.uniform(0.3, 0.8, size))
    weft.counters.reset()
    for scale in (0.1, 1.0, 7.0):
        x, w = rng.uniform(0.5, 2, int(size := rng.integers(1, 9))) * scale, rng.uniform(0.3, 0.8, size)
        found, expected = orders(compiled, x, w), orders(function, x, w)
        for a, b in zip(found, expected, strict=False):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
        assert len(found) >= len(expected)
    assert (weft.counters.captures, weft.counters.llvm_compiles, weft.counters.foreign_segments) == (0, 0, 0)


def test_a_scripted_loop_without_a_bound_is_native_backwards(rng) -> None:
    @weft.jit.script
    def f(x, most: float):
        while float(x.abs().max()) > most:
            x = x * 0.8 - 0.01 * x * x
        return x

    compiled = weft.compile(f)

    def gradient(function, values, most):
        x = weft.tensor(values, requires_grad=True)
        function(x, most).sum().backward()
        return x.grad.numpy()

    for most in (0.5, 0.4):
        gradient(compiled, rng.uniform(-2, 2, 5), most)
    weft.counters.reset()
    for most in (0.3, 0.01):
        values = rng.uniform(-2, 2, int(rng.integers(2, 20)))
        with weft.jit.optimized_execution(False):
            expected = gradient(f, values, most)
        np.testing.assert_allclose(gradient(compiled, values, most), expected, rtol=1e-9)
    assert (weft.counters.captures, weft.counters.foreign_segments) == (0, 0)
