"""autograd.grad by a tensor with a history gives what its hooks make of the gradient; a compiled function gave the
gradient before them, for the caller's hooks were no part of the program, and no guard saw that they were there."""

from __future__ import annotations

from typing import Any

import pytest

import weft


class Holder:
    y: Any = None


def by_argument(y: Any) -> Any:
    (gradient,) = weft.autograd.grad((y * y).sum(), y, create_graph=True)
    return gradient


def halved(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 0.5)
    return y


@pytest.mark.parametrize("split", [False, True])
def test_by_an_argument(split: bool) -> None:
    compiled = weft.compile(lambda y: by_argument(y), split=split)
    forward = weft.compile(halved)
    for make in (lambda x: x * 2, halved, forward, lambda x: x * 2, forward, halved):
        x = weft.ones(3, requires_grad=True)
        y = make(x)
        expected, actual = by_argument(y), compiled(y)
        assert actual.tolist() == expected.tolist() == [4.0 if make not in (halved, forward) else 2.0] * 3
        second = [weft.autograd.grad(out.sum(), x, retain_graph=True)[0] for out in (actual, expected)]
        assert second[0].tolist() == second[1].tolist()


@pytest.mark.parametrize("split", [False, True])
def test_by_a_tensor_of_pythons_state(split: bool) -> None:
    holder = Holder()

    def step(x: Any) -> Any:
        (gradient,) = weft.autograd.grad((holder.y * x).sum(), holder.y)
        return gradient

    compiled = weft.compile(step, split=split)
    for heard in (False, True, False, True):
        x = weft.ones(3, requires_grad=True)
        holder.y = halved(x) if heard else x * 2
        assert compiled(weft.ones(3)).tolist() == [0.5 if heard else 1.0] * 3


def test_results_fed_back_to_a_step_that_hears_them() -> None:
    def step(x: Any) -> Any:
        (gradient,) = weft.autograd.grad((x * x).sum(), x, create_graph=True)
        y = gradient * 1.5
        y.register_hook(lambda g: g * 0.5)
        return y

    compiled = weft.compile(step)
    eager = mine = weft.ones(2, requires_grad=True)
    for _ in range(4):
        eager, mine = step(eager), compiled(mine)
        assert mine.tolist() == eager.tolist()


def test_a_function_that_asks_for_no_gradient_is_one_program_with_hooks_and_without() -> None:
    compiled = weft.compile(lambda y: y.sin() * 2)
    for heard in (False, True, True, False):
        x = weft.ones(3, requires_grad=True)
        y = halved(x) if heard else x * 2
        compiled(y).sum().backward()
        assert x.grad is not None and weft.allclose(x.grad, weft.cos(x * 2) * (2.0 if heard else 4.0))
    assert len(compiled.entries) == 1
