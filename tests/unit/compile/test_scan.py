"""weft.scan: a recurrence over rows, the same as plain Python's in eager mode and in every back end, at every order."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.support.errors import ArgumentError, CaptureError

BACKENDS = ("interpret", "numpy", "llvm")


def by_hand(w, h, xs, reverse):
    """The recurrence as Python writes it."""
    ys = [None] * len(xs)
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        h = (xs[i] @ w + h).tanh()
        ys[i] = h * i
    return h, weft.stack(ys)


def scanned(w, h, xs, reverse):
    at = weft.arange(xs.shape[0])

    def step(h, row):
        h = (row["x"] @ w + h).tanh()
        return h, (h * row["i"], None)

    h, (ys, nothing) = weft.scan(step, h, {"x": xs, "i": at}, reverse=reverse)
    assert nothing is None
    return h, ys


def orders(function, w, h, xs, reverse):
    """Values, first and second gradients."""
    leaves = [weft.tensor(v, requires_grad=True) for v in (w, h, xs)]
    final, ys = function(*leaves, reverse)
    first = weft.autograd.grad((final * final).sum() + ys.sum(), leaves, create_graph=True)
    second = weft.autograd.grad(sum((g * g).sum() for g in first), leaves)
    return [v.detach().numpy() for v in (final, ys, *first, *second)]


@pytest.mark.parametrize("reverse", (False, True))
@pytest.mark.parametrize("backend", ("eager", *BACKENDS))
def test_values_and_two_orders_of_gradients(backend, reverse, rng) -> None:
    function = scanned if backend == "eager" else weft.compile(scanned, backend=backend)
    for _ in range(3):
        n, m = (int(k) for k in rng.integers(1, 7, 2))
        values = rng.standard_normal((m, m)), rng.standard_normal(m), rng.standard_normal((n, m))
        for found, expected in zip(orders(function, *values, reverse), orders(by_hand, *values, reverse), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_third_gradients_are_those_of_the_polynomial(rng) -> None:
    def power(x, n):
        return weft.scan(lambda c, row: (c * x + row, c), x, weft.zeros(n, dtype=weft.float64))[0]

    for function in (power, weft.compile(power)):
        x = weft.tensor(float(rng.uniform(0.5, 1.5)), dtype=weft.float64, requires_grad=True)
        n = int(rng.integers(3, 6))
        found, factor = function(x, n), 1.0
        for k in range(3):  # x ** (n + 1)
            (found,) = weft.autograd.grad(found, [x], create_graph=True)
            factor *= n + 1 - k
            np.testing.assert_allclose(found.item(), factor * x.item() ** (n - k), rtol=1e-9)


def test_one_native_program_serves_every_count_and_is_one_loop(rng) -> None:
    def step(w):
        return lambda c, x: ((c * w + x).sin(), (c + w) * x)

    def loss(xs, w):
        return (weft.scan(step(w), weft.zeros(3, dtype=weft.float64), xs)[1] ** 2).sum()

    compiled = weft.compile(loss)
    w = weft.tensor(rng.standard_normal(3), requires_grad=True)
    for n in (3, 5):
        compiled(weft.tensor(rng.standard_normal((n, 3))), w).backward()
    weft.counters.reset()
    for n in (1, 2, 400, 7, 0):
        xs, w.grad = weft.tensor(rng.standard_normal((n, 3))), None
        compiled(xs, w).backward()
        found, w.grad = w.grad.numpy(), None
        if n:
            loss(xs, w).backward()
        np.testing.assert_allclose(found, w.grad.numpy() if n else np.zeros(3), rtol=1e-9, atol=1e-12)
    assert (weft.counters.captures, weft.counters.llvm_compiles, weft.counters.foreign_segments) == (0, 0, 0)


@pytest.mark.parametrize("compiled", (False, True))
def test_no_rows(compiled) -> None:
    def f(xs):
        return weft.scan(lambda c, x: (c + x.sum(), x * 2), 1.5, xs)

    carry, ys = (weft.compile(f) if compiled else f)(weft.zeros(0, 4))
    assert carry.item() == 1.5 and ys.shape == (0, 4)


def test_what_is_refused() -> None:
    xs = weft.ones(3, 2)
    for fn, init, rows, text in (
        (lambda c, x: (c, x), 0.0, (), "xs has no tensor"),
        (lambda c, x: (c, x), 0.0, (xs, weft.ones(4)), "3 and 4 rows"),
        (lambda c, x: (c, x), 0.0, weft.tensor(1.0), "0-dim"),
        (lambda c, x: c, 0.0, xs, "a pair"),
        (lambda c, x: ((c, c), x), 0.0, xs, "structure"),
        (lambda c, x: (c + x, x), 0.0, xs, "where init is"),
    ):
        with pytest.raises(ArgumentError, match=text):
            weft.scan(fn, init, rows)
    with pytest.raises(CaptureError, match="scan: fn gives a carry"):
        weft.compile(lambda xs: weft.scan(lambda c, x: (c + x, x), 0.0, xs))(xs)
