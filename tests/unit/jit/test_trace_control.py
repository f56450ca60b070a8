"""weft.cond, weft.while_loop and weft.scan in a trace are branches and loops of the program."""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft.support import pytree
from weft.support.errors import ArgumentError


def chosen(x):
    return weft.cond(x.sum() > 0, lambda v: (v * 2, {"n": v.sum()}), lambda v: (v - 1, {"n": v.sum() * 0}), (x,))


def given_back(x):
    y = weft.cond(x.sum() > 0, lambda v: v, lambda v: v * 2, (x,))
    return x * 3, y * 3


def halved(x):
    return weft.while_loop(lambda v, k: v.abs().max() > 1, lambda v, k: (v * 0.5, k + 1), (x, 0))


def summed(x):
    return weft.scan(lambda c, v: (c * 0.5 + v, (c * v).tanh()), weft.zeros(3, dtype=weft.float64), x)


def backwards(x):
    def step(c, v):
        return c * 0.5 + v["a"], {"y": (c * v["a"]).tanh(), "none": None, "z": v["b"][0] + c}

    return weft.scan(step, x[0] * 2, {"a": x, "b": [x.sin()]}, reverse=True)


def nested(x):
    def body(v, k):
        return weft.cond(v.mean() > 2, lambda a: a * 0.5, lambda a: a * 0.75, (v,)), k + 1

    y, k = weft.while_loop(lambda v, k: v.abs().max() > 1, body, (x, 0))
    with weft.no_grad():
        z = weft.cond(y.sum() > 0, lambda: y * 2, lambda: y + 1)
    return y, k, z, x


def without_gradient(x):
    def quiet(v):
        with weft.no_grad():
            return v * 2

    return weft.cond(x.sum() > 0, quiet, lambda v: v * 3, (x,)) + x


@pytest.mark.parametrize("f", [chosen, given_back, halved, summed, backwards, nested, without_gradient])
@pytest.mark.parametrize("first", [3.0, -3.0])
def test_other_values_and_sizes_go_other_ways(f, first, rng) -> None:
    traced = weft.jit.trace(f, (weft.full((2, 3), first, dtype=weft.float64),))
    traced.graph.lint()
    for rows, scale in ((4, 1.0), (1, -9.0), (3, 20.0)):
        orders = []
        x = weft.tensor(rng.uniform(0.5, 1, (rows, 3)) * scale)
        for g in (f, traced):
            x = x.detach().requires_grad_()
            found = pytree.flatten(g(x))[0]
            flowing = sum((t * t).sum() for t in found if isinstance(t, weft.Tensor) and t.requires_grad)
            orders.append([*found, *weft.autograd.grad(flowing, x)])
        for a, b in zip(*orders, strict=True):
            assert a is b is None or weft.allclose(a, b), f.__name__


def test_a_trace_with_control_flow_is_stored(tmp_path) -> None:
    weft.jit.save(weft.jit.trace(nested, (weft.ones(2, 3, dtype=weft.float64),)), tmp_path / "nested")
    x = weft.full((4, 3), -9.0, dtype=weft.float64)
    for a, b in zip(weft.jit.load(tmp_path / "nested")(x), nested(x), strict=True):
        assert weft.allclose(a, b)


def test_what_does_not_fit_is_refused() -> None:
    x = weft.ones(2, 3)
    with pytest.raises(ArgumentError, match="the branches return different structures"):
        weft.jit.trace(lambda x: weft.cond(x.sum() > 0, lambda: x, lambda: (x, x)), (x,))
    with pytest.raises(ArgumentError, match="in a trace the example needs at least one row"):
        weft.jit.trace(lambda x: weft.scan(lambda c, v: (c + v, v), weft.zeros(3), x), (weft.ones(0, 3),))
