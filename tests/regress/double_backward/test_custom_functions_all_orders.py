"""Gradients of any order of a compiled forward go through custom Functions as their backward has it, not as the
operators of their forward would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.autograd import Function

Forward = Callable[[Tensor, Tensor], Tensor]


class Rounded(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x * 8).round() / 8

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


class Reversed(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return -2 * g


class SavesInput(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * x * 5 + g.detach() * x.detach()


class SavesOutput(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.sigmoid()
        ctx.save_for_backward(y)
        sign = x.sign()
        ctx.mark_non_differentiable(sign)
        return y, sign

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return 3 * g * y * (1 - y)


class SavesBetween(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.between = x.exp()
        return ctx.between * 1

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * ctx.between


class Writes(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        ctx.save_for_backward(w)
        return x.mul_(w)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        (w,) = ctx.saved_tensors
        return g * w * 3, g * w.sin()


class Both(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, w)
        return x * w, x + w

    @staticmethod
    def backward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return a * w * x, b * x * 2


def _written(x: Tensor, w: Tensor) -> Tensor:
    y = SavesInput.apply(x * w)
    with weft.no_grad():
        y.mul_(2)
    return y * y * x


def _part_written(x: Tensor, w: Tensor) -> Tensor:
    y = SavesInput.apply(x * w)
    y[1:].mul_(w[1:])
    return y * y * x


def _dirty(x: Tensor, w: Tensor) -> Tensor:
    y = x * w
    z = Writes.apply(y, w)
    return z * z * y * x


def _both(x: Tensor, w: Tensor) -> Tensor:
    a, b = Both.apply(x.sin(), w * x)
    return a * b * b


_FORWARDS: dict[str, Forward] = {
    "straight_through": lambda x, w: Rounded.apply(x * w) ** 3 * w,
    "view": lambda x, w: Reversed.apply(x * w) ** 2 * x,
    "input": lambda x, w: SavesInput.apply(x * w) ** 3 * w,
    "output": lambda x, w: SavesOutput.apply(x * w)[0] ** 2 * w,
    "other_output": lambda x, w: SavesOutput.apply(x * w)[1] * SavesOutput.apply(x)[0],
    "between": lambda x, w: SavesBetween.apply(x * w) ** 2 * w,
    "twice": lambda x, w: SavesInput.apply(Rounded.apply(x) * SavesBetween.apply(w)) * x,
    "written": _written, "part_written": _part_written, "dirty": _dirty, "both": _both,
    "leaf": lambda x, w: SavesInput.apply(x) * SavesInput.apply(w) * x,
}


def _gradients(forward: Forward, data: np.ndarray) -> list[np.ndarray]:
    x, w = (weft.tensor(row).requires_grad_() for row in data)
    value, found = forward(x, w).sin().sum(), []
    for order in range(3):
        grads = weft.autograd.grad(value, (x, w), create_graph=order < 2, allow_unused=True)
        found += [np.zeros(data.shape[1]) if g is None else g.detach().numpy() for g in grads]
        value = sum((g * g).sum() for g in grads if g is not None)
    return found


@pytest.mark.parametrize("name", sorted(_FORWARDS))
def test_three_orders_are_those_of_eager_mode(name: str, rng: np.random.Generator) -> None:
    data = rng.uniform(0.2, 1.2, (2, int(rng.integers(2, 6))))
    compiled = weft.compile(_FORWARDS[name], backend="interpret")
    expected, found = (_gradients(f, data.copy()) for f in (_FORWARDS[name], compiled))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)
