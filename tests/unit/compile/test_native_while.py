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


def grown(y, w, most=6.0):
    return weft.while_loop(lambda y: y.sum() < most, lambda y: (y * (1.2 + w) + 0.3,), (y,))[0]


def within_a_loop_over_rows(x, w):
    return weft.scan(lambda c, row: (grown(c * 0.1, w) + row, c.sin()), x * x, weft.stack([x, w, x]))[1].sum(0)


def within_a_loop_without_a_bound(x, w):
    def body(y, n):
        return grown((y * 0.1).sigmoid(), w).tanh() * (1 + w), n + 1

    return weft.while_loop(lambda y, n: (n < 4) & (y.sum() < 40), body, (x, 0))[0]


def within_a_branch(x, w):
    return weft.cond(x.sum() > 4 * w.sum(), lambda: grown(x * 0.1, w), lambda: grown(x * 0.2, w) * w + x)


def within_a_branch_within_a_loop(x, w):
    def body(y, n):
        return weft.cond(n % 2 == 0, lambda: grown(y * 0.1, w).log() * y.cos(), lambda: y * w), n + 1

    return weft.while_loop(lambda y, n: n < 3, body, (x, 0))[0]


def within_two_loops(x, w):
    def outer(y, n):
        return weft.while_loop(lambda z: z.sum() < 9, lambda z: (grown(z * 0.4, w, 4.0) * 1.5 + 0.1 * y,), (y * 0.1,))[
            0
        ].sin(), n + 1

    return weft.while_loop(lambda y, n: n < 3, outer, (x, 0))[0]


def two_of_different_lengths(x, w):
    def body(y, n):
        a, b = grown(y * 0.1, w), grown(y * 0.02, w * 0.5, 9.0)
        return (a * b).log() * 0.5, n + 1

    return weft.while_loop(lambda y, n: n < 3, body, (x * x + 0.1, 0))[0]


FUNCTIONS = (
    shrinking, two_in_a_row, with_a_branch, within_a_loop_over_rows, within_a_loop_without_a_bound, within_a_branch,
    within_a_branch_within_a_loop, within_two_loops, two_of_different_lengths,
)


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


def test_the_third_order_is_native_too(rng) -> None:
    def third(x, w):
        leaves = [weft.tensor(v, requires_grad=True) for v in (x, w)]
        found = [function(*leaves)]
        for _ in range(3):
            found = weft.autograd.grad(sum((v.sin() * v).sum() for v in found), leaves, create_graph=True)
        return [v.detach().numpy() for v in found]

    x, w = rng.uniform(0.5, 2, 3), rng.uniform(0.3, 0.8, 3)
    function = within_a_branch
    expected = third(x, w)
    function = weft.compile(within_a_branch)
    third(x[:2], w[:2])
    third(x, w)
    weft.counters.reset()
    for a, b in zip(third(x, w), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    assert (weft.counters.captures, weft.counters.foreign_segments) == (0, 0)


@pytest.mark.parametrize("backend", ["numpy", "interpret"])
def test_other_back_ends_find_the_sizes_anew_too(backend, rng) -> None:
    x, w = rng.uniform(0.5, 2, 3), rng.uniform(0.3, 0.8, 3)
    expected = orders(two_of_different_lengths, x, w)
    with weft.knobs(backend=backend):
        for a, b in zip(orders(weft.compile(two_of_different_lengths), x, w), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_a_step_in_numpy_within_leaves_the_loops_around_it_right(rng) -> None:
    def f(x, w):
        def body(y, n):
            made = weft.while_loop(
                lambda z: z.sum() < 20, lambda z: (weft.linalg.inv(weft.diag(z)).diag() + z * (1 + w),), (y,)
            )[0]
            return made * 0.1, n + 1

        return weft.while_loop(lambda y, n: n < 3, body, (x, 0))[0]

    x, w = rng.uniform(0.5, 2, 3), rng.uniform(0.3, 0.8, 3)
    for a, b in zip(orders(weft.compile(f), x, w), orders(f, x, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_memory_that_rows_need_grows_and_is_let_go(rng) -> None:
    def f(x, n):
        def body(y, i):
            def inner(z, k):
                return z * 0.999 + 0.001 * z.sin(), k + 1

            return weft.while_loop(lambda z, k: k < i * i, inner, (y, 0))[0], i + 1

        return weft.while_loop(lambda y, i: i < n, body, (x, 0))[0]

    compiled = weft.compile(f)
    for size, n in ((50, 3), (70, 4), (3000, 12)):
        values = rng.uniform(0.5, 2, size)
        found = []
        for function in (f, compiled):
            x = weft.tensor(values, requires_grad=True)
            function(x, weft.tensor(n)).sum().backward()
            found.append(x.grad.numpy())
        np.testing.assert_allclose(*found, rtol=1e-10)


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
