"""A branch or a loop body writes tensors that were made outside of it: compiled as in eager mode,
with gradients of every order, state among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import grad

STATE = weft.zeros(3, dtype=weft.float64)


def _in_one_branch(x: Any, w: Any) -> Any:
    y = x * 1.0
    return weft.cond(x.sum() > 0, lambda: (y.mul_(w), y.sin())[1], lambda: x * w) + y * y


def _views(x: Any, w: Any) -> Any:
    y = x * 1.0
    v = y[1:]
    r = weft.cond(x.sum() > 0, lambda: (y[0].mul_(w[0]), v.sin() * w[1])[1], lambda: (v.add_(w[2]), y[:2].cos())[1])
    return y * y + r.sum() * v.sum()


def _in_each_step(x: Any, w: Any) -> Any:
    total = x * 0.0

    def body(h: Any, n: Any) -> Any:
        total.add_((h * w).sin())
        total[0].mul_(w[1])
        return h * w, n + 1

    h, _ = weft.while_loop(lambda h, n: n < 3, body, (x, 0))
    return total * h


def _in_a_branch_of_a_step(x: Any, w: Any) -> Any:
    total = x * 0.0

    def body(h: Any, n: Any) -> Any:
        weft.cond(h.sum() > 1.0, lambda: total.add_(h * w).sum(), lambda: total.sub_(w * w).sum())
        return h * w + total.detach() * 0.1, n + 1

    h, _ = weft.while_loop(lambda h, n: n < 3, body, (x, 0))
    return total * h


def _state_in_a_loop(x: Any, w: Any) -> Any:
    def body(h: Any, n: Any) -> Any:
        with weft.no_grad():
            STATE.add_(h)
        return h * w, n + 1

    return weft.while_loop(lambda h, n: n < 3, body, (x, 0))[0] + STATE * x


def _state_in_a_branch(x: Any, w: Any) -> Any:
    weft.cond(x.sum() > 0, lambda: STATE.add_(1).sum(), lambda: STATE.mul_(2).sum())
    return x * STATE.clone() * w


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(
    "function", [_in_one_branch, _views, _in_each_step, _in_a_branch_of_a_step, _state_in_a_loop, _state_in_a_branch],
    ids=lambda f: f.__name__[1:],
)
def test_writes_are_carried_out(
    function: Callable[[Any, Any], Any], order: int, backend: str, rng: np.random.Generator
) -> None:
    def step(x: Any, w: Any) -> Any:
        found = function(x, w)
        outs, found = [found.detach()], (found * found * w).sum()
        for _ in range(order):
            grads = grad(found, [x, w], create_graph=True)
            outs += [g.detach() for g in grads]
            found = sum((g * g * x * w).sum() for g in grads)
        return outs

    compiled = weft.compile(step, backend=backend)
    for sign in (1, -1, 1):
        x = weft.tensor(sign * rng.uniform(0.2, 1.0, 3), requires_grad=True)
        w = weft.tensor(rng.uniform(0.5, 0.9, 3), requires_grad=True)
        ends = []
        for run in (step, compiled):
            STATE.fill_(0.5)
            ends.append([*(t.numpy() for t in run(x, w)), STATE.numpy().copy()])
        for found, expected in zip(ends[1], ends[0], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_what_a_branch_saved_and_wrote_is_refused_as_in_eager_mode() -> None:
    def step(x: Any) -> Any:
        y = x * 1.0
        out = weft.cond(x.sum() > 0, lambda: (y.sin(), y.mul_(2.0))[0], lambda: y * 3.0)
        return grad(out.sum(), [x])[0]

    x = weft.tensor([1.0, 2.0], requires_grad=True)
    for run in (step, weft.compile(step, backend="interpret")):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(x)
