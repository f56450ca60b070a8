"""Hooks on what a compiled function returns take part in the backward that its caller runs: on views, on the node that
a module's backward hooks put behind its result, and retain_grad()."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft


def row(rng: np.random.Generator) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(4)).requires_grad_()


def test_backward_hooks_of_the_last_module(rng: np.random.Generator) -> None:
    last = weft.nn.Tanh()
    last.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 3,))
    x = row(rng)
    weft.compile(lambda t: last(t * 2))(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * (1 - np.tanh(2 * x.detach().numpy()) ** 2))


def tensor_hook(view: weft.Tensor) -> None:
    view.register_hook(lambda g: g * 3)


def node_hook(view: weft.Tensor) -> None:
    assert view.grad_fn is not None
    view.grad_fn.register_hook(lambda grads, _: tuple(g * 3 for g in grads))


@pytest.mark.parametrize("hook", [tensor_hook, node_hook])
def test_hooks_on_a_returned_view(hook: Callable[[weft.Tensor], None], rng: np.random.Generator) -> None:
    def first_half(t: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        whole = t.sin()
        view = whole[:2]
        hook(view)
        return whole, view

    x = row(rng)
    whole, view = weft.compile(first_half)(x)
    assert view._base is whole
    (whole.sum() + view.sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.detach().numpy()) * np.array([4, 4, 1, 1]))


def test_the_gradient_of_a_result_is_kept(rng: np.random.Generator) -> None:
    def retained(t: weft.Tensor) -> weft.Tensor:
        out = t.exp()
        out.retain_grad()
        return out

    x = row(rng)
    out = weft.compile(retained)(x)
    assert out.retains_grad
    (out * out).sum().backward()
    np.testing.assert_allclose(out.grad.numpy(), 2 * np.exp(x.detach().numpy()))
