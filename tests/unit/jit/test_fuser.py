"""Programs that fuse: each becomes one native program whose groups are as large as they can be, does what eager mode
does at every drawn size with gradients, and is compiled once.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn.functional as F
from weft.jit.interpreter.hot import compiled_after


def absolute(x, y):
    return (x.abs() * y + x).abs().sqrt() - y.abs()


def broadcast(x, y):
    return (x[:1] * y + x[:, :1] * y[0]).tanh() * 2 - y[0, 0]


def joined(x, y):
    a, b = x * y + x, x - y * 2
    return weft.cat([a.tanh() * 2, b[:, :1].exp()], 1)


def joined_and_read(x, y):
    a = weft.cat([x * y, x + y], 0)
    return a * 2, (a.sin() - a).sum()


def clamped(x, y):
    return (x + y).clamp(-1, 1) * x.clamp(min=0.1) + y.clamp(max=0.5)


def compared(x, y):
    kind = x.dtype
    return ((x < y).to(kind) * x + (x >= y).to(kind) * y + (x == y).to(kind) - (x != y).to(kind)).tanh()


def addcmul(x, y):
    return (weft.addcmul(x, y, x * y, value=0.5) * y + x).tanh() - weft.addcmul(y, x, x)


def lerp(x, y):
    return (weft.lerp(x, y * 2, 0.3) * weft.lerp(x, y, 0.7)).tanh() - y * x


def evaluated_dropout(x, y):
    return F.dropout(x * y + x, 0.5, False).tanh() * y - x * 2 + y


def least_and_most(x, y):
    return weft.minimum(x, y) * weft.maximum(x * 2, y) - weft.minimum(x, -y)


def threshold(x, y):
    return F.threshold(x * y, 0.1, -2.0) + F.relu(x - y) + F.leaky_relu(x + y, 0.2)


def error_function(x, y):
    return weft.erf(x * y) + weft.erfc(x) * weft.expm1(y.clamp(max=1))


def scalars(x, y):
    return (x * 2 + 3) / 4 - y * 0.5 + (1 - x) * (2 / (y * y + 1))


def cell(x, y):
    i, f, g, o = weft.cat([x * y, x + y, x - y, y * 2], 1).chunk(4, 1)
    c = f.sigmoid() * x + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def distributed_chunk(x, y):
    a, b = (x.tanh() * y + 1).chunk(2, 0)
    return a * b[:1] + a.exp()


PROGRAMS = [
    absolute, broadcast, joined, joined_and_read, clamped, compared, addcmul, lerp, evaluated_dropout, least_and_most,
    threshold, error_function, scalars, cell, distributed_chunk,
]


def orders(function, values, dtype):
    leaves = [weft.tensor(v, dtype=dtype, requires_grad=True) for v in values]
    outs = function(*leaves)
    outs = outs if isinstance(outs, tuple) else (outs,)
    total = sum((o * o).sum() for o in outs)
    first = weft.autograd.grad(total, leaves, create_graph=True)
    second = weft.autograd.grad(sum((g * g).sum() for g in first), leaves)
    return [t.detach().numpy() for t in (*outs, *first, *second)]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_what_fuses_does_what_eager_mode_does_at_every_size(function, rng) -> None:
    scripted = weft.jit.script(function)
    least = 2 if function is distributed_chunk else 1
    with compiled_after(0, 0):
        for turn in range(4):
            n, m = (int(k) for k in rng.integers(max(least, 2 if turn < 2 else least), 7, 2))
            values = [rng.uniform(-2, 2, (n, m)) for _ in range(2)]
            if turn == 2:
                weft.counters.reset()
            found = orders(scripted, values, weft.float64)
            for a, b in zip(found, orders(function, values, weft.float64), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
        assert weft.counters.native_calls > 0 and weft.counters.jit_plans == 0
    assert weft.jit.last_executed_plan(scripted).fusion_groups


@pytest.mark.parametrize("function", [absolute, clamped, scalars], ids=lambda f: f.__name__)
def test_nothing_and_single_numbers(function) -> None:
    scripted = weft.jit.script(function)
    with compiled_after(0, 0):
        for shape in ((3, 2), (0, 2), (2, 0), (), (1,), (3, 1, 2)):
            for _ in range(2):
                x, y = weft.full(shape, 0.5), weft.full(shape, -0.75)
                assert weft.allclose(scripted(x, y), function(x, y))


@pytest.mark.parametrize("op", [
    "x + y", "x - y", "x * y", "x / y", "-x", "x.abs()", "x.relu()", "weft.where(x > y, x, y)",
])
def test_special_values_have_the_bits_of_eager_mode(op, rng) -> None:
    f = weft.jit.CompilationUnit(
        f"def f(x, y):\n    z = {op}\n    for i in (1, 2, 3, 4, 5):\n"
        f"        x = {op}\n    return z, x\n").f
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-310, 5e-324, 1.5, -2.0])
    x, y = (weft.tensor(rng.choice(odd, 64)) for _ in range(2))
    with compiled_after(0, 0):
        for _ in range(3):
            found = f(x, y)
    with weft.jit.optimized_execution(False):
        expected = f(x, y)
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(np.signbit(a.numpy()), np.signbit(b.numpy())) or "nan" in str(b)
        assert np.array_equal(a.numpy(), b.numpy(), equal_nan=True)


def test_sizes_that_a_chunk_does_not_divide() -> None:
    f = weft.jit.CompilationUnit("def f(x):\n    a, b, c = x.chunk(3)\n    return a * 2, b.exp(), c + 1\n").f
    with compiled_after(0, 0):
        for n in (6, 9, 7, 5, 8, 6):
            x = weft.arange(float(n))
            for a, b in zip(f(x), x.chunk(3), strict=True):
                assert a.shape == b.shape
        four = weft.jit.CompilationUnit("def f(x):\n    a, b, c, d = x.chunk(4)\n    return a * b + c\n").f
        four(weft.ones(8))
        with pytest.raises(RuntimeError):
            four(weft.ones(5))


def test_cat_never_broadcasts() -> None:
    f = weft.jit.CompilationUnit("def f(x, y, z):\n    return weft.cat([x * z + 1, (y - z).tanh()], 0)\n").f
    with compiled_after(0, 0):
        for _ in range(3):
            assert f(weft.ones(2, 4), weft.ones(1, 4), weft.ones(1)).shape == (3, 4)
            assert f(weft.ones(3, 2), weft.ones(5, 2), weft.ones(2)).shape == (8, 2)
        with pytest.raises((RuntimeError, ValueError)):
            f(weft.ones(2, 4), weft.ones(1, 1), weft.ones(1))


def test_draws_differ_from_call_to_call_and_follow_the_seed() -> None:
    f = weft.jit.CompilationUnit(
        "def f(x):\n    a = weft.rand_like(x)\n    b = weft.rand_like(x) + a\n    return (a * x).tanh() + b * 2, a\n").f
    with compiled_after(0, 0):
        x = weft.ones(5)
        for _ in range(2):
            f(x)
        weft.manual_seed(7)
        first, again = f(x), f(x)
        weft.manual_seed(7)
        with weft.jit.optimized_execution(False):
            expected = f(x), f(x)
    assert not weft.equal(first[1], again[1])
    for a, b in zip((*first, *again), (*expected[0], *expected[1]), strict=True):
        assert weft.allclose(a, b, rtol=1e-6)
