"""Batches of gradients in one walk (is_grads_batched), and gradcheck's forward and batched sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck


def leaf(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape)).requires_grad_()


class Wrong(weft.autograd.Function):
    """sin with a jvp that forgets a factor."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos()

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t * ctx.saved_tensors[0].cos() * 2


def test_one_walk_for_all(rng):
    x, w = leaf(rng, 3), leaf(rng, 4, 3)
    y = (w @ x).tanh()
    walks: list[int] = []
    y.register_hook(lambda g: walks.append(1))
    seeds = weft.eye(4, dtype=weft.float64)
    of_x, of_w = weft.autograd.grad(y, (x, w), seeds, is_grads_batched=True, retain_graph=True)
    slope = 1 - y.detach().numpy() ** 2
    np.testing.assert_allclose(of_x.numpy(), slope[:, None] * w.detach().numpy())
    np.testing.assert_allclose(of_w.numpy(), np.einsum("bi,i,j->bij", np.eye(4), slope, x.detach().numpy()))
    assert len(walks) == 1
    (again,) = weft.autograd.grad(y, x, seeds, is_grads_batched=True, create_graph=True)
    (second,) = weft.autograd.grad(again.sum(), x)
    assert second.shape == (3,) and again.requires_grad


def test_gradcheck_both_ways(rng):
    x, z = leaf(rng, 3), weft.from_numpy(rng.normal(size=2) + 1j * rng.normal(size=2)).requires_grad_()
    for fast in (False, True):
        assert gradcheck(
            lambda a: (a.exp() * a, a.cumsum(0)), x, check_forward_ad=True, check_batched_grad=True, fast_mode=fast
        )
        assert gradcheck(lambda a: (a * a.conj()).abs(), z, check_forward_ad=True, fast_mode=fast)


def test_gradcheck_finds_a_wrong_jvp(rng):
    x = leaf(rng, 3)
    assert gradcheck(Wrong.apply, x)
    with pytest.raises(weft.autograd.GradcheckError, match="Jacobian computed with forward mode mismatch"):
        gradcheck(Wrong.apply, x, check_forward_ad=True)
    assert not gradcheck(Wrong.apply, x, check_forward_ad=True, check_backward_ad=False, raise_exception=False)


def test_vectorized_jacobians_are_the_same(rng):
    functional = weft.autograd.functional
    a, b = leaf(rng, 3).detach(), leaf(rng, 2).detach()

    def f(a: Any, b: Any) -> Any:
        return weft.outer(a.exp(), b), a.sum()

    plain, fast = (functional.jacobian(f, (a, b), vectorize=v) for v in (False, True))
    for rows, others in zip(plain, fast, strict=True):
        for one, other in zip(rows, others, strict=True):
            np.testing.assert_allclose(other.numpy(), one.numpy())
    h = [functional.hessian(lambda x: x.pow(3).sum(), a, vectorize=v).numpy() for v in (False, True)]
    np.testing.assert_allclose(h[0], h[1])
    np.testing.assert_allclose(h[1], np.diag(6 * a.numpy()))
    with pytest.raises(RuntimeError, match="independent of input 1"):
        functional.jacobian(lambda a, b: a * 2, (a, b), strict=True, vectorize=True)


def test_a_batch_of_gradients_meets_a_function_within_a_backward(rng):
    class Inner(weft.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(g: Any, x: Any) -> Any:
            return g * x.cos()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, h: Any) -> Any:
            g, x = ctx.saved_tensors
            return h * x.cos(), -h * g * x.sin()

    class Sine(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return Inner.apply(g, ctx.saved_tensors[0])

    x = leaf(rng, 3)
    (rows,) = weft.autograd.grad(
        Sine.apply(x), x, weft.eye(3, dtype=weft.float64), is_grads_batched=True, create_graph=True
    )
    np.testing.assert_allclose(rows.detach().numpy(), np.diag(np.cos(x.detach().numpy())))
    (second,) = weft.autograd.grad(rows.sum(), x)
    np.testing.assert_allclose(second.numpy(), -np.sin(x.detach().numpy()))
