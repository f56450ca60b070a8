"""`retain_grad()` was not heard: of an argument with a history, by which the step asks for a gradient; and of a result
with hooks that hangs on nothing but leaves which the step has made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

OPTIONS: list[dict[str, Any]] = [{}, {"backend": "interpret"}, {"split": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=["compile", "interpret", "split"])
@pytest.mark.parametrize("create", [False, True])
def test_an_argument_keeps_the_gradient_that_is_asked_for_by_it(create: bool, options: dict[str, Any]) -> None:
    step = weft.compile(lambda y: weft.autograd.grad((y * y).sum(), y, create_graph=create)[0], **options)
    for call, (keeps, size) in enumerate([(False, 3), (True, 3), (True, 4), (False, 4), (True, 2)]):
        y = weft.linspace(0, 1, size, requires_grad=True) * 3
        if keeps:
            y.retain_grad()
        gradient = step(y)
        np.testing.assert_allclose(gradient.detach().numpy(), 2 * y.detach().numpy(), err_msg=f"call {call}")
        assert keeps is y.retains_grad
        if keeps:
            assert y.grad is not None
            np.testing.assert_allclose(y.grad.detach().numpy(), 2 * y.detach().numpy(), err_msg=f"call {call}")


@pytest.mark.parametrize("options", OPTIONS, ids=["compile", "interpret", "split"])
@pytest.mark.parametrize("how", ["backward", "inputs", "grad", "hook"])
def test_a_result_of_leaves_that_nobody_else_has(how: str, options: dict[str, Any]) -> None:
    def step(x: Any) -> Any:
        leaf = weft.nn.Parameter(x * 0.5)
        y = leaf * leaf
        y.register_hook(lambda g: g * 2)
        return y, y.sin()

    compiled = weft.compile(step, **options)
    for size in (3, 4, 2, 3):
        y, z = compiled(weft.ones(size))
        heard: list[Any] = []
        if how == "grad":
            heard += [weft.autograd.grad(y.sum(), y, retain_graph=True)[0], weft.autograd.grad(z.sum(), y)[0]]
            expected = [2.0, 2 * np.cos(0.25)]
        else:
            if how == "hook":
                y.register_hook(heard.append)
            else:
                y.retain_grad()
            (y + z).sum().backward(inputs=[y] if how == "inputs" else None)
            heard += [y.grad] if how != "hook" else []
            expected = [2 * (1 + np.cos(0.25))]
        assert len(heard) == len(expected)
        for one, truth in zip(heard, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), np.full(size, truth), 1e-6)
