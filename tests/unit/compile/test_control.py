"""weft.cond and weft.while_loop: the same as Python's in eager mode and in every back end, with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.support.errors import CaptureError

BACKENDS = ("interpret", "numpy", "llvm")


def both(function, backend):
    return function, weft.compile(function, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond_chooses_when_the_program_runs(backend, rng):
    k = weft.tensor(rng.standard_normal(3))

    def f(x):
        return weft.cond(
            x.sum() > 0, lambda a: {"y": a * k, "n": a.sum()}, lambda a: {"y": a[0] - k * 2, "n": k.sum()}, (x,)
        )

    eager, compiled = both(f, backend)
    weft.counters.reset()
    for sign in (1, -1, 1):
        for _ in range(2):
            x = weft.tensor(sign * np.abs(rng.standard_normal(3)))
            for name in ("y", "n"):
                np.testing.assert_allclose(compiled(x)[name].numpy(), eager(x)[name].numpy(), rtol=1e-12)
    assert weft.counters.captures == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_through_cond(backend, rng):
    w = weft.tensor(rng.standard_normal((3, 3)), requires_grad=True)
    v = weft.tensor(rng.standard_normal(3), requires_grad=True)

    def step(x):
        row = w[0]
        y = weft.cond(x.sum() > 0, lambda a: (a @ w).sin() * row, lambda a: (a * v).exp() + row * w[1], (x * v,))
        (y * y).sum().backward()
        found = w.grad.clone(), v.grad.clone()
        w.grad = v.grad = None
        return found

    eager, compiled = both(step, backend)
    for sign in (1, -1):
        x = weft.tensor(sign * np.abs(rng.standard_normal(3)))
        for a, b in zip(compiled(x), eager(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nested_control_flow(backend, rng):
    w = weft.tensor(rng.uniform(0.5, 0.9, 2), requires_grad=True)

    def step(x):
        def body(c, n):
            c = weft.cond(
                c.sum() > 1, lambda a: a * w,
                lambda a: weft.cond(a[0] > 0.2, lambda b: b * w + 0.1, lambda b: b - w * 0.5, (a,)), (c,),
            )
            return c, n + 1

        c, n = weft.while_loop(lambda c, n: n < 4, body, (x, 0))
        c.sum().backward()
        found = w.grad.clone()
        w.grad = None
        return c.detach(), n, found

    eager, compiled = both(step, backend)
    for _ in range(3):
        x = weft.tensor(rng.uniform(-1, 2, 2))
        for a, b in zip(compiled(x), eager(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_while_loop_runs_as_long_as_its_condition_holds(backend, rng):
    w = weft.tensor(rng.uniform(1.1, 1.5, 3), requires_grad=True)

    def step(x):
        x = x * 1.0
        y, n = weft.while_loop(lambda y, n: y.sum() < 20.0, lambda y, n: (y * w + 0.1, n + 1), (x * w, 0))
        (y * y).sum().backward()
        found = w.grad.clone()
        w.grad = None
        return y.detach(), n, found

    eager, compiled = both(step, backend)
    counts = set()
    for scale in (0.1, 1.0, 50.0):
        x = weft.tensor(scale * rng.uniform(0.5, 1.0, 3))
        found, expected = compiled(x), eager(x)
        counts.add(int(expected[1]))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)
    assert 0 in counts and len(counts) > 1


def _branches(x, w):
    return weft.cond(x.sum() > 0, lambda a: (a * w).sin() * a, lambda a: (a * w).exp() * w, (x,))


def _stops(x, w):
    return (
        weft.while_loop(lambda y, n: (y * y).sum() < 9.0, lambda y, n: (y * (1 + w) + 0.3 * y.sin(), n + 1), (x, 0))[0]
    )


def _loop_in_loop(x, w):
    def body(c, n):
        # another number of steps each time
        d, _ = weft.while_loop(lambda d, m: m <= n, lambda d, m: (d * w.sin(), m + 1), (c, 0))
        return d + w, n + 1

    return weft.while_loop(lambda c, n: n < 3, body, (x, 0))[0]


def _branch_in_loop(x, w):
    def body(c, n):
        return weft.cond(
            c.sum() > 1, lambda a: a * w.sin(),
            lambda a: weft.cond(a[0] > 0.2, lambda b: b * w * b + 0.1, lambda b: b - w * 0.5, (a,)), (c,),
        ), n + 1

    return weft.while_loop(lambda c, n: n < 4, body, (x, 0))[0]


def _orders(function, order):
    """The sum of all gradients of one order, as a function of x and w; each is differentiated with create_graph."""

    def total(x, w):
        found = (function(x, w) * w).sum() + (x * x * w).sum()
        for _ in range(order):
            found = sum(g.sin().sum() for g in weft.autograd.grad(found, [x, w], create_graph=True))
        return found

    return total


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
@pytest.mark.parametrize("function", [_branches, _stops, _loop_in_loop, _branch_in_loop], ids=lambda f: f.__name__[1:])
def test_higher_orders(function, backend, rng):
    compiled = [weft.compile(lambda x, w, k=k: _orders(function, k)(x, w).detach(), backend=backend) for k in range(4)]
    second = weft.compile(lambda x, w: weft.autograd.grad(_orders(function, 1)(x, w), [x, w]), backend=backend)
    for sign in (1, -1):
        x = weft.tensor(sign * rng.uniform(0.2, 1.0, 3), requires_grad=True)
        w = weft.tensor(rng.uniform(0.5, 0.9, 3), requires_grad=True)
        for k in range(4):
            np.testing.assert_allclose(compiled[k](x, w).item(), _orders(function, k)(x, w).item(), rtol=1e-9)
        slopes = second(x, w)
        way, step = rng.standard_normal(3), 1e-6
        ends = [
            compiled[1](weft.tensor(x.detach().numpy() + s * step * way, requires_grad=True), w).item() for s in (1, -1)
        ]
        np.testing.assert_allclose(
            (slopes[0].numpy() * way).sum(), (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6
        )


def test_python_conditions_are_python(rng):
    assert weft.cond(True, lambda: 1, lambda: 2) == 1
    compiled = weft.compile(
        lambda x, flag: weft.cond(flag, lambda a: a + 1, lambda a: a - 1, (x,)), backend="interpret"
    )
    x = weft.tensor([1.0])
    assert compiled(x, True).tolist() == [2.0] and compiled(x, False).tolist() == [0.0]


REFUSED = {
    "different structures": lambda x: weft.cond(x.sum() > 0, lambda a: a, lambda a: (a, a), (x,)),
    "is expected": lambda x: weft.cond(x.sum() > 0, lambda a: a, lambda a: a[0], (x,)),
    "the body returns": lambda x: weft.while_loop(lambda a: a.sum() < 1, lambda a: a[:1], (x,)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_recorded_is_refused_with_its_line(words):
    with pytest.raises(CaptureError, match=words) as caught:
        weft.compile(REFUSED[words], backend="interpret")(weft.tensor([1.0, 2.0]))
    assert "test_control.py" in str(caught.value)
