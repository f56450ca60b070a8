"""A tensor that is written under no_grad, or through a tensor without its history, keeps the history of what it was: so
it is in gradients of any order of a compiled forward."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor

Forward = Callable[[Tensor, Tensor], Tensor]


def _under_no_grad(write: Callable[[Tensor, Tensor], object], use: Forward = lambda y, x: y * y * x) -> Forward:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        with weft.no_grad():
            write(y, w)
        return use(y, x)

    return forward


def _by_alias(write: Callable[[Tensor, Tensor], object], use: Forward = lambda y, x: y.exp() * x) -> Forward:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        write(y.detach(), w.detach())
        return use(y, x)

    return forward


def _leaf(x: Tensor, w: Tensor) -> Tensor:
    before = w * 2
    with weft.no_grad():
        w.mul_(x)
    return x * w * w + before


def _alias_with_a_history(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    d = y.detach()
    d.mul_(w)
    return d * y * x


def _detached_base(x: Tensor, w: Tensor) -> Tensor:
    d = (x * w).detach()
    d[:2].mul_(w[:2])
    return d * d * x


def _rest_of_a_base(x: Tensor, w: Tensor) -> Tensor:
    y = (x * w).reshape(2, 2).t()
    with weft.no_grad():
        y[0].mul_(w[:2])
    y[1].mul_(x[2:])
    return (y * y * x.reshape(2, 2)).reshape(4)


def _own_leaf(x: Tensor, w: Tensor) -> Tensor:
    y = x.detach().requires_grad_()
    (slope,) = weft.autograd.grad((y * w).sin().sum(), y, create_graph=True)
    return slope * w * x + y * w


def _swapped(x: Tensor, w: Tensor) -> Tensor:
    y, u = x * w, x + w
    with weft.no_grad():
        kept = y.clone()
        y.copy_(u)
        u.copy_(kept)
    return y**2 * u


def _gradient(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    (slope,) = weft.autograd.grad((y**3).sum(), x, create_graph=True)
    with weft.no_grad():
        slope.mul_(2)
    return slope * y


def _view_made_before(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    v = y[1:]
    with weft.no_grad():
        y.mul_(w)
    return (v * v).sum() * y


def _many_times(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    for _ in range(3):
        with weft.no_grad():
            y.add_(w)
        y = y * x.sin()
    return y


def _within_a_branch(x: Tensor, w: Tensor) -> Tensor:
    def positive() -> Tensor:
        u = x * w
        u.detach().mul_(3)
        return u * u * x

    return weft.cond(x.sum() > 0, positive, lambda: x * w) * w


def _before_a_branch(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    v = y[1:3]
    y.detach().mul_(2)
    return weft.cond(x.sum() > 0, lambda: v * v * x[1:3], lambda: v * w[1:3]) * w[1:3]


def _by_a_branch(x: Tensor, w: Tensor) -> Tensor:
    y = x * w

    def writes() -> Tensor:
        with weft.no_grad():
            y.mul_(2)
        return y.sum()

    return weft.cond(x.sum() > 0, writes, lambda: x.sum()) * y * y


def _in_a_loop(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    with weft.no_grad():
        y.mul_(2)

    def step(i: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        u = t * x
        with weft.no_grad():
            u.mul_(2)
        return i + 1, u * w * u * y

    return weft.while_loop(lambda i, t: i < 2, step, (0, y))[1] * y  # type: ignore[no-any-return]


_FORWARDS: dict[str, Forward] = {
    "product": _under_no_grad(lambda y, w: y.mul_(2)),
    "copy": _under_no_grad(lambda y, w: y.copy_(w.sin()), lambda y, x: y**3),
    "part": _under_no_grad(lambda y, w: y[1:].mul_(w[1:]), lambda y, x: y.sin() * x),
    "element": _under_no_grad(lambda y, w: y.__setitem__(0, 5.0)),
    "relu": _under_no_grad(lambda y, w: y.relu_(), lambda y, x: y.sigmoid() * x),
    "alias": _by_alias(lambda d, w: d.add_(w)),
    "part_of_an_alias": _by_alias(lambda d, w: d[:2].mul_(3.0)),
    "data": lambda x, w: _by_alias(lambda d, w: d.zero_())(x, w) + x * w,
    "leaf": _leaf, "alias_with_a_history": _alias_with_a_history, "detached_base": _detached_base,
    "rest_of_a_base": _rest_of_a_base, "own_leaf": _own_leaf, "swapped": _swapped, "gradient": _gradient,
    "view_made_before": _view_made_before, "many_times": _many_times, "within_a_branch": _within_a_branch,
    "before_a_branch": _before_a_branch, "by_a_branch": _by_a_branch, "in_a_loop": _in_a_loop,
}


def _gradients(forward: Forward, data: np.ndarray) -> list[np.ndarray]:
    x, w = (weft.tensor(row).requires_grad_() for row in data)
    value, found = forward(x, w).sin().sum(), []
    for order in range(3):
        grads = weft.autograd.grad(value, (x, w), create_graph=order < 2, allow_unused=True)
        found += [np.zeros(data.shape[1]) if g is None else g.detach().numpy() for g in grads]
        there = [(g * g).sum() for g in grads if g is not None]
        value = sum(there[1:], there[0])
    return found


@pytest.mark.parametrize("name", sorted(_FORWARDS))
def test_three_orders_are_those_of_eager_mode(name: str, rng: np.random.Generator) -> None:
    data = rng.uniform(0.2, 1.2, (2, 4))
    compiled = weft.compile(_FORWARDS[name], backend="interpret")
    expected, found = (_gradients(f, data.copy()) for f in (_FORWARDS[name], compiled))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


def test_a_view_whose_base_was_written_has_one_history_in_both_branches() -> None:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        v = y[1:3]
        y.mul_(2)
        return weft.cond(x.sum() > 0, lambda: v.sin(), lambda: v * w[1:3])

    for sign in (1.0, -1.0):
        found = []
        for f in (forward, weft.compile(forward, backend="interpret")):
            x = weft.tensor([0.3, 2.0, 0.7], dtype=weft.float64).mul(sign).requires_grad_()
            w = weft.tensor([1.1, 3.0, 1.2], dtype=weft.float64, requires_grad=True)
            found.append(weft.autograd.grad(f(x, w).sum(), (x, w)))
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10)


def test_an_argument_with_a_history_keeps_that_of_what_it_was(rng: np.random.Generator) -> None:
    def forward(v: Tensor, w: Tensor) -> Tensor:
        v.detach().mul_(2)
        with weft.no_grad():
            v.add_(w)
        return v**3 * w

    compiled = weft.compile(forward, backend="interpret")
    data = rng.uniform(0.2, 1.2, (2, 3))
    expected, found = (_gradients(lambda x, w, f=f: f(x * 1, w), data.copy()) for f in (forward, compiled))  # type: ignore[misc]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)
