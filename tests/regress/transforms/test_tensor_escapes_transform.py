"""Tensors that a function keeps while a transform differentiates it: afterwards they are what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

TRANSFORMS: dict[str, Callable[[Callable[..., Any], weft.Tensor], Any]] = {
    "grad": lambda f, x: weft.func.grad(f)(x),
    "vjp": lambda f, x: weft.func.vjp(f, x)[1](weft.tensor(1.0))[0],
    "jvp": lambda f, x: weft.func.jvp(f, (x,), (weft.ones_like(x),))[1],
    "grad of grad": lambda f, x: weft.func.grad(lambda y: (weft.func.grad(f)(y) * y).sum())(x),
}


class Model(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[weft.Tensor] = []


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("split", [False, True])
def test_they_are_state_of_a_compiled_step(name: str, split: bool) -> None:
    def totals(compiled: bool) -> list[float]:
        model = Model()

        def loss(x: weft.Tensor) -> weft.Tensor:
            model.seen.append(x.detach().sum())
            del model.seen[:-2]
            return (x * x * model.seen[0]).sum()

        def step(x: weft.Tensor) -> weft.Tensor:
            return TRANSFORMS[name](loss, x)

        run = weft.compile(step, split=split) if compiled else step
        out = []
        for size in (3, 3, 5, 2):
            out.append(run(weft.linspace(0.5, 2.0, size)).sum().item())
            out += [kept.item() for kept in model.seen]
        return out

    assert totals(True) == pytest.approx(totals(False))


def test_a_returned_one_is_the_tensor_behind_it() -> None:
    def step(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        kept: list[weft.Tensor] = []

        def loss(y: weft.Tensor) -> weft.Tensor:
            kept.extend([(y * 2).detach(), y * 3])
            return (y * y).sum()

        return (weft.func.grad(loss)(x), *kept)

    x = weft.tensor([1.0, 2.0], requires_grad=True)
    slope, detached, tripled = weft.compile(step)(x)
    assert [t.tolist() for t in (slope, detached, tripled)] == [[2.0, 4.0], [2.0, 4.0], [3.0, 6.0]]
    assert not detached.requires_grad
    assert weft.autograd.grad(tripled.sum(), x)[0].tolist() == [3.0, 3.0]


def test_a_batch_that_is_kept_is_refused() -> None:
    kept: list[weft.Tensor] = []

    def step(x: weft.Tensor) -> weft.Tensor:
        def row(v: weft.Tensor) -> weft.Tensor:
            kept[:] = [v]
            return v.sum()

        return weft.func.vmap(row)(x)

    with pytest.raises(weft.WeftError, match="return the tensor from the function instead of keeping it"):
        weft.compile(step)(weft.ones(2, 3))
