"""A compiled call gives what a custom Function gave beside what was computed from it: second gradients by the former
are there."""

import numpy as np
import pytest

import weft


class Straight(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return weft.round(x * 4) / 4

    @staticmethod
    def backward(ctx, g):
        return g * 1.5


class Pair(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y.sin()

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h * y.cos()


def _square(x):
    v = Straight.apply(x)
    return v * v * x, v


def _through_a_view(x):
    v = Straight.apply(x)
    return v[None][0] * v, v


def _of_two(x):
    a, b = Pair.apply(x, x.sin())
    return a * b * b, b


def _twice(x):
    v = Straight.apply(Straight.apply(x).sin())
    return v * v * v, v


@pytest.mark.parametrize("function", [_square, _through_a_view, _of_two, _twice])
def test_second_gradients(function) -> None:
    def run(step):
        log = []
        for n in (3, 3, 5, 4):
            x = weft.linspace(0.3, 2, n, requires_grad=True)
            z, v = step(x)
            for first in (v, x):
                (g,) = weft.autograd.grad(z.sum(), first, create_graph=True)
                for second in (v, x):
                    (s,) = weft.autograd.grad((g * g).sum(), second, retain_graph=True, allow_unused=True)
                    log += [*g.tolist(), *([None] if s is None else s.tolist())]
        return log

    expected = run(function)
    for backend in ("interpret", "llvm"):
        found = run(weft.compile(function, backend=backend))
        assert [x is None for x in found] == [x is None for x in expected]
        np.testing.assert_allclose(np.array(found, float), np.array(expected, float), 1e-4)
