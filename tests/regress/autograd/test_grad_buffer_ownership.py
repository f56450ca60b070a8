"""A gradient's bytes are taken, or used again, only where nobody else has them: known from who made the gradient
and who was given it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor


class _Keeps(weft.autograd.Function):
    """Gives its gradient on, and keeps it."""

    kept: list[Tensor] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        made = gradient * 2
        _Keeps.kept.append(made)
        return made


def test_a_gradient_of_two_leaves_is_copied() -> None:
    a, b = (weft.ones(3, requires_grad=True) for _ in range(2))
    ((a + b) * 2).sum().backward()
    a.grad.zero_()
    assert b.grad.tolist() == [2, 2, 2]


def test_a_gradient_that_the_user_gives_is_copied() -> None:
    x, seed = weft.ones(3, requires_grad=True), weft.ones(3)
    x.backward(seed)
    seed.zero_()
    assert x.grad.tolist() == [1, 1, 1]
    y, seed = weft.ones(3, requires_grad=True), weft.ones(3)
    y.clone().backward(seed)
    seed.zero_()
    assert y.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("where", ["leaf", "between", "node"])
def test_a_gradient_that_a_hook_keeps_is_copied(where: str) -> None:
    x = weft.ones(3, requires_grad=True)
    y = x * 2
    kept: list[Any] = []
    if where == "leaf":
        x.register_hook(kept.append)
    elif where == "between":
        y.register_hook(kept.append)
    else:
        y.grad_fn.register_hook(lambda out, grads: kept.extend(out))
    y.sum().backward()
    x.grad.zero_()
    assert all(value != 0 for value in kept[0].tolist())


def test_a_gradient_that_a_custom_function_keeps_is_copied() -> None:
    x = weft.ones(3, requires_grad=True)
    _Keeps.apply(x).sum().backward()
    x.grad.zero_()
    assert _Keeps.kept.pop().tolist() == [2, 2, 2]


@pytest.mark.parametrize("made", [
    lambda x: x * 3, lambda x: (x * 3) + (x * 4), lambda x: (x @ weft.ones(3, 2)).exp(),
    lambda x: weft.compile(lambda t: t * 3, backend="interpret")(x),
], ids=["one", "sum", "product", "compiled"])
def test_a_gradient_that_nobody_else_has_is_taken(
    made: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No second array of the gradient's size is filled."""
    copies: list[Any] = []
    import weft.autograd.accumulate as accumulate  # the module

    copied = accumulate.laid_out_like
    monkeypatch.setattr(accumulate, "laid_out_like", lambda *args: copies.append(args) or copied(*args))
    x = weft.ones(3, 3, requires_grad=True)
    made(x).sum().backward()
    assert not copies and x.grad is not None


def _step(x: Tensor, p: Tensor) -> Tensor:
    p.grad = None
    loss = (p * x).sum()
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_a_program_writes_no_gradient_that_somebody_has(backend: str) -> None:
    step, p = weft.compile(_step, backend=backend), weft.nn.Parameter(weft.ones(3))
    kept: list[Any] = []
    for i in range(4):
        step(weft.ones(3) * i, p)
        kept.append(p.grad)
    assert [k.tolist() for k in kept] == [[i] * 3 for i in range(4)]
    array = p.grad.numpy()
    step(weft.ones(3) * 9, p)
    assert array.tolist() == [3, 3, 3]


@pytest.mark.usefixtures("nobody_takes_over")
@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_a_program_writes_a_gradient_again_that_nobody_has(backend: str) -> None:
    step, p = weft.compile(_step, backend=backend), weft.nn.Parameter(weft.ones(3))
    optimizer = weft.optim.SGD([p], lr=0.1)
    step(weft.ones(3), p)
    optimizer.step()
    state = p._autograd
    assert state is not None and state.grad is not None
    before = state.grad._data
    for i in range(3):
        step(weft.ones(3) * i, p)
        optimizer.step()
        weft.nn.utils.clip_grad_norm_([p], 1.0)
    assert state.grad._data is before


def test_memory_that_an_array_of_other_order_shows_does_not_grow() -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    x = weft.from_numpy(array)
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(4, 4)
    x[0, 0] = 7.0
    assert array[0, 0] == 7 and x.shape == (2, 3)


def test_memory_that_does_not_grow_stays_shared() -> None:
    x = weft.arange(4.0)
    y = x.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(9)
    x.add_(1)
    assert y.tolist() == [1, 2, 3, 4] and x.tolist() == y.tolist()
    del y
    assert x.resize_(6)[:4].tolist() == [1, 2, 3, 4]
