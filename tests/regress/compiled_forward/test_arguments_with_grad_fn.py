"""Tensors from outside with histories of their own, as arguments over one memory or in a closure: a compiled function
recorded the graph behind them as its own, which it also freed. Its gradients go to them instead.
"""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft import Tensor
from weft.jit.interpreter.hot import compiled_after

PARTS = {
    "a tensor and its row": lambda y: (y, y[0]), "rows": lambda y: (y[0], y[1], y[2]), "unbound": lambda y: y.unbind(0),
    "transposed": lambda y: (y, y.t()), "all": lambda y: (y, y[0], y[1:], y.t()),
}


def weighed(*parts):
    return sum((i + 1) * p.tanh().sum() for i, p in enumerate(parts))


@pytest.mark.parametrize("name", PARTS)
def test_arguments_over_one_memory(name, rng) -> None:
    f = weft.compile(weighed)
    weft.counters.reset()
    for _ in range(3):
        x = weft.tensor(rng.standard_normal((3, 3)), requires_grad=True)
        y = x.sin()
        (found,) = weft.autograd.grad(f(*PARTS[name](y)), x, retain_graph=True)
        (wanted,) = weft.autograd.grad(weighed(*PARTS[name](y)), x)  # the graph behind y is still there
        assert weft.allclose(found, wanted)
    assert weft.counters.captures == 1


def test_a_leaf_beside_what_was_computed_of_it(rng) -> None:
    f = weft.compile(weighed)
    for _ in range(2):
        x = weft.tensor(rng.standard_normal((3, 3)), requires_grad=True)
        y = x.sin()
        (found,) = weft.autograd.grad(f(x, y, y[1]), x, retain_graph=True)
        assert weft.allclose(found, weft.autograd.grad(weighed(x, y, y[1]), x)[0])


def test_a_tensor_of_the_closure(rng) -> None:
    x = weft.tensor(rng.standard_normal(3), requires_grad=True)
    y = x.sin()
    f = weft.compile(lambda a: (a * y).sum())
    a = weft.tensor(rng.standard_normal(3), requires_grad=True)
    for _ in range(2):
        found = weft.autograd.grad(f(a), (a, x), retain_graph=True)
        assert weft.allclose(found[0], y) and weft.allclose(found[1], a * x.cos())


@weft.jit.script
def scaled(y: Tensor, rows: list[Tensor]) -> Tensor:
    print(end="")
    return y + weft.tanh(weft.stack(rows)).sin().cos().exp().sigmoid().sum()


def test_groups_of_scripted_programs(rng) -> None:
    with compiled_after(0, 0):
        for _ in range(3):
            x = weft.tensor(rng.standard_normal((2, 3)), requires_grad=True)
            y = x.sin()
            orders = []
            for rows in ([y[0], y[1]], [y[0].clone(), y[1].clone()]):
                (first,) = weft.autograd.grad((scaled(y, rows) ** 2).sum(), x, create_graph=True)
                orders.append((first, *weft.autograd.grad((first**2).sum(), x, retain_graph=True)))
            assert all(weft.allclose(a, b) for a, b in zip(*orders, strict=True))
