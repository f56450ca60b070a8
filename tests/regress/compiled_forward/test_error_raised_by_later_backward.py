"""A backward that callers of a compiled function may run fails for who runs it, and not for who calls the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function


class Fails(Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        raise ValueError("no gradient of this")


class HasNone(Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x * 1


class GivesTwo(Fails):
    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        return g, g


class TakesNoNone(Function):
    """Its backward stands the gradient of its first result alone, and none for the second."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> weft.Tensor:
        return first * 2


def hooked(x: weft.Tensor) -> weft.Tensor:
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    return y * 3


def written_since(x: weft.Tensor) -> weft.Tensor:
    y = x * 1
    z = y * y
    y.add_(1)
    return z


@pytest.mark.parametrize(("fn", "error"), [
    (lambda x: Fails.apply(x) * 2, ValueError), (lambda x: HasNone.apply(x) * 2, NotImplementedError),
    (lambda x: GivesTwo.apply(x), RuntimeError), (hooked, ZeroDivisionError), (written_since, RuntimeError),
])
def test_the_error_is_met_by_who_runs_it(
    fn: Callable[[weft.Tensor], weft.Tensor], error: type[Exception], rng: np.random.Generator
) -> None:
    compiled = weft.compile(fn)
    for n in (3, 5):
        data = rng.standard_normal(n)
        out = compiled(weft.from_numpy(data).requires_grad_())
        assert weft.equal(out.detach(), fn(weft.from_numpy(data).requires_grad_()).detach())
        with pytest.raises(error):
            out.sum().backward()
    assert "a backward through what is returned raises" in compiled.misses[0]


def test_the_other_result_of_a_function_whose_backward_was_run() -> None:
    def step(x: weft.Tensor) -> Any:
        first, second = TakesNoNone.apply(x)
        first.sum().backward()
        return second * 1

    compiled = weft.compile(step)
    for n in (3, 5):
        x = weft.ones(n, requires_grad=True)
        assert weft.equal(compiled(x).detach(), weft.full((n,), 3.0))
        assert weft.equal(x.grad, weft.full((n,), 2.0))


@pytest.mark.parametrize("write", [lambda b: b[0].sin_(), lambda b: b.t()[1].mul_(2), lambda b: b[1].copy_(b[2])])
def test_what_was_written_through_a_view_may_be_returned_behind_its_backward(
    write: Callable[[weft.Tensor], Any], rng: np.random.Generator
) -> None:
    def step(x: weft.Tensor) -> Any:
        b = x.clone()
        write(b)
        (b * b).sum().backward()
        return b, b * 1, x.grad

    compiled = weft.compile(step)
    for n in (3, 4):
        data = rng.standard_normal((n, 3))
        found = compiled(weft.from_numpy(data).requires_grad_())
        expected = step(weft.from_numpy(data).requires_grad_())
        for a, b in zip(found, expected, strict=True):
            assert weft.allclose(a.detach(), b.detach())
