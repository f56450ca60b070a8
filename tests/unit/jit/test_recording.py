"""Scripted programs in weft.compile: branches and loops that hang on values are part of the native program, forward and
backward, and one program serves every size and every count of steps.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit


def halved_or_grown(x, n: int):
    y = x
    for i in range(n):
        if y.sum() > 3:
            y = y * 0.5
            continue
        y = y + x * i
    return y


def row_by_row(x, n: int):
    out = weft.zeros_like(x)
    for i in range(x.size(0)):
        out[i] = x[i] * i + x[i, 0]
        if x[i].sum() > 0.5:
            out[i] += n
    return out * out


def until_small(x, n: int):
    i = 0
    while bool((x * x).sum() > 0.5) and i < 50:
        x = x * 0.7
        i += 1
        if i > n:
            return x * i
    return x + i


def carried_pair(x, n: int):
    t = (x, 0)
    for i in range(1, n, 2):
        if i == 5:
            continue
        a, b = t
        t = (a * 1.1 + weft.sin(a), b + i)
    return t[0] * t[1]


def called_twice(x, n: int):
    return halved_or_grown(x, n) + halved_or_grown(x * 2, int(x.abs().sum()))


def nested(x, n: int):
    total = x.sum()
    for i in range(n):
        for j in range(i):
            if (total > j) != (i % 2 == 0):
                total = total + x[j % 2].sum() / (j + 1)
            total = total - 0.25 * i
    return total * x


def in_parts(x, n: int):
    y = x
    for i in range(n):
        y = (y * 1.1).tanh() + x / (i + 1)
    a, b = y.chunk(2, 0)
    return a * b


PROGRAMS = (halved_or_grown, row_by_row, until_small, carried_pair, called_twice, nested, in_parts)


def with_gradients(function, values, n):
    x = weft.tensor(values, requires_grad=True)
    y = function(x, n)
    if not y.requires_grad:
        return [y.numpy()]
    (first,) = weft.autograd.grad((y * y).sum(), [x])
    return [y.detach().numpy(), first.numpy()]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_what_hangs_on_values_is_part_of_the_program(function, rng) -> None:
    compiled = weft.compile(weft.jit.script(function))
    weft.counters.reset()
    for n, rows in ((2, 4), (0, 2), (7, 8)):
        values = rng.standard_normal((rows, 3))
        for a, b in zip(with_gradients(function, values, n), with_gradients(compiled, values, n), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert weft.counters.captures <= 2 + (function is in_parts)  # n is a plain number until it changes


@pytest.mark.parametrize("function", (halved_or_grown, row_by_row, in_parts), ids=lambda f: f.__name__)
def test_counted_loops_are_native_backward_too(function, rng) -> None:
    compiled = weft.compile(weft.jit.script(function))
    for n in (6, 7):
        with_gradients(compiled, rng.standard_normal((4, 3)), n)
    weft.counters.reset()
    for n in (8, 90):
        with_gradients(compiled, rng.standard_normal((n, 3)), n)
    assert (weft.counters.captures, weft.counters.llvm_compiles, weft.counters.foreign_segments) == (0, 0, 0)
    assert weft.counters.native_calls >= 4


def test_a_numbers_way_out(rng) -> None:
    @weft.jit.script
    def f(x, n: int):
        most, where, ever = -9.0, 0, False
        for i in range(x.size(0)):
            if x[i].item() > most:
                most, where = float(x[i]), i
                ever = ever or i > n
        return most, where, ever

    compiled = weft.compile(f)
    for _ in range(4):
        x, n = weft.tensor(rng.standard_normal(int(rng.integers(1, 9)))), int(rng.integers(4))
        assert compiled(x, n) == f(x, n)
        assert [type(v) for v in compiled(x, n)] == [float, int, bool]


def test_second_gradients(rng) -> None:
    compiled = weft.compile(weft.jit.script(carried_pair))
    for n in (4, 7):
        values = rng.standard_normal((2, 3))
        found = []
        for function in (carried_pair, compiled):
            x = weft.tensor(values, requires_grad=True)
            (first,) = weft.autograd.grad(function(x, n).sum(), [x], create_graph=True)
            found.append(weft.autograd.grad((first * first).sum(), [x])[0].numpy())
        np.testing.assert_allclose(*found, rtol=1e-9)


def test_a_place_that_a_loop_finds_is_read_within_it(rng) -> None:
    def f(x):
        def body(i, total):
            row = x[i]
            return i + 1, total + weft.cond(row.sum() > 0, lambda: row * 2, lambda: x[i])

        return weft.while_loop(lambda i, total: i < x.size(0), body, (0, weft.zeros(3, dtype=weft.float64)))[1]

    x = weft.tensor(rng.standard_normal((5, 3)))
    np.testing.assert_allclose(weft.compile(f)(x).numpy(), f(x).numpy(), rtol=1e-12)
