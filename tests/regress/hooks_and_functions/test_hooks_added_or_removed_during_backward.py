"""A hook or a Function that adds hooks to nodes whose turn is still to come, or takes them away: compiled autograd goes
by what is there when the turn comes, as eager mode does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca

Log = list[Any]


def _removed(x: Any, log: Log) -> None:
    y = x * 2
    z = y * 3
    handle = y.register_hook(lambda g: log.append("removed"))
    kept = y.register_hook(lambda g: log.append("kept"))
    z.register_hook(lambda g: handle.remove())
    z.sum().backward()
    kept.remove()


def _added_everywhere(x: Any, log: Log) -> None:
    y = x * 2
    z = y * 3

    def add(g: Any) -> None:
        y.register_hook(lambda g: (log.append("tensor"), g * 5)[1])
        y.grad_fn.register_prehook(lambda g: log.append("before"))
        y.grad_fn.register_hook(lambda into, out: log.append(("after", len(into))))
        x.register_post_accumulate_grad_hook(lambda p: log.append(("leaf", p.grad.shape)))
        z.grad_fn.register_prehook(lambda g: log.append("before its own"))
        z.register_hook(lambda g: log.append("too late"))

    z.register_hook(add)
    total = (z.exp() + y).sum()
    total.backward(retain_graph=True)
    total.backward()


def _by_a_function(x: Any, log: Log) -> None:
    y = x * 2

    class Adds(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            y.register_hook(lambda g: log.append(tuple(g.shape)))
            return g

    Adds.apply(y).sum().backward()


def _replaced_behind_a_leaf(x: Any, log: Log) -> None:
    w = weft.ones(x.shape).requires_grad_()
    handle = x.register_post_accumulate_grad_hook(lambda p: log.append("first"))

    def change(p: Any) -> None:
        handle.remove()
        x.register_hook(lambda g: log.append("leaf"))

    w.register_post_accumulate_grad_hook(change)
    ((x * 2) * w).sum().backward()


@pytest.mark.parametrize("compiler", [ca.interpret, ca.native])
@pytest.mark.parametrize("run", [_removed, _added_everywhere, _by_a_function, _replaced_behind_a_leaf])
def test_hooks_are_those_of_the_moment(
    run: Callable[[Any, Log], None], compiler: Any, rng: np.random.Generator
) -> None:
    def logged() -> tuple[Log, np.ndarray[Any, Any]]:
        x, log = weft.from_numpy(values.copy()).requires_grad_(), []
        run(x, log)
        return log, x.grad.numpy()

    for _ in range(3):  # captured, then recalled
        values = rng.standard_normal(int(rng.integers(2, 9)))
        expected, gradient = logged()
        with ca.enable(compiler):
            log, found = logged()
        assert log == expected
        np.testing.assert_allclose(found, gradient)


def test_a_hook_takes_a_gradient_away_where_leaves_have_one(rng: np.random.Generator) -> None:
    x, w = (weft.from_numpy(rng.standard_normal(int(n))).requires_grad_() for n in rng.integers(2, 9, 1).repeat(2))
    y = x * w
    turn = [0]

    def hook(into: Any, out: Any) -> Any:
        turn[0] += 1
        return (None, into[1]) if turn[0] == 2 else None

    y.grad_fn.register_hook(hook)
    total = y.sum()
    with ca.enable():
        for _ in range(3):
            total.backward(retain_graph=True)
    np.testing.assert_allclose(x.grad.numpy(), 2 * w.detach().numpy())
    np.testing.assert_allclose(w.grad.numpy(), 3 * x.detach().numpy())
