"""forward_ad under autograd: gradients of dual tensors carry tangents (products with the Hessian), and tangents are
written into plain tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.autograd.forward_ad as forward_ad
import weft.nn.functional as F
from weft.autograd import Function, grad
from weft.autograd.forward_ad import dual_level, make_dual, unpack_dual


def point(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape))


class Cube(Function):
    """x**3 in the older style."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x * x

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * t * x * x


class Exponential(Function):
    """exp in the newer style; its result is saved."""

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0]


def written(x: Any, y: Any) -> Any:
    out = weft.zeros_like(x)
    out[0] = x[0] * 2
    out.t()[1].add_(y[:, 0])
    return (out * x).sin().sum()


def written_into_itself(x: Any, y: Any) -> Any:
    out = x.clone()
    view = out[0]
    out.mul_(y)
    view.exp_()
    return (out * x).sum()


PROGRAMS = {
    "products": lambda x, y: ((x @ y.t()) @ x).sin().sum(),
    "max": lambda x, y: (x.max(0, keepdim=True)[0] * y * x).sum(),
    "shared": lambda x, y: (y.unbind(0)[0] * x).pow(2).sum(),
    "joined": lambda x, y: (weft.cat([x * x, y.unbind(0)[0] * y])[1:] ** 3).sum(),
    "norm": lambda x, y: (F.layer_norm(x, x.shape[-1:]) * y).pow(3).sum(),
    "softmax": lambda x, y: (x.softmax(-1) * y).pow(2).sum(),
    "older": lambda x, y: (Cube.apply(x) * y).sum(),
    "newer": lambda x, y: (Exponential.apply(x * y)).sum(),
    "written": written,
    "written_into_itself": written_into_itself,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("both", [False, True])
def test_the_tangent_of_a_gradient(name, both, rng):
    f = PROGRAMS[name]
    x, y, v, w = (point(rng, 3, 4) for _ in range(4))
    w = w if both else w * 0

    def gradient(x: Any, y: Any) -> Any:
        x = x.detach().requires_grad_()
        return grad(f(x, y), x)[0]

    step = 1e-6
    expected = (gradient(x + step * v, y + step * w) - gradient(x - step * v, y - step * w)) / (2 * step)
    leaf = x.clone().requires_grad_()
    with dual_level():
        loss = f(make_dual(leaf, v), make_dual(y, w) if both else y)
        (found,) = grad(loss, leaf, create_graph=True)
        value, tangent = unpack_dual(found)
        np.testing.assert_allclose(value.detach().numpy(), gradient(x, y).numpy(), rtol=1e-9)
        np.testing.assert_allclose(tangent.detach().numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
        along = unpack_dual(loss).tangent
        np.testing.assert_allclose(
            float(along), float((gradient(x, y) * v).sum() + (grad(f(x, y.requires_grad_()), y)[0] * w).sum()),
            rtol=1e-7,
        )
        if not both:  # the tangent of the loss is the gradient along v
            np.testing.assert_allclose(grad(along, leaf)[0].numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_backward_of_a_dual_loss(rng):
    x, v = point(rng, 3), point(rng, 3)
    leaf = x.clone().requires_grad_()
    with dual_level():
        dual = make_dual(leaf, v)
        assert dual.requires_grad and not dual.is_leaf
        (dual**3).sum().backward()
        (dual**3).sum().backward()
    assert type(leaf.grad._data) is np.ndarray
    np.testing.assert_allclose(leaf.grad.numpy(), 6 * x.numpy() ** 2)
    with dual_level():
        dual = make_dual(x, v).requires_grad_()
        (found,) = grad((dual**3).sum(), dual)
        np.testing.assert_allclose(unpack_dual(found).tangent.numpy(), 6 * x.numpy() * v.numpy())


def test_tangents_are_written_into_plain_tensors(rng):
    x, v = point(rng, 3), point(rng, 3)
    buffer = weft.zeros(2, 3, dtype=weft.float64)
    beside = buffer[1]
    with dual_level():
        dual = make_dual(x, v)
        buffer[0] = dual * 2
        buffer[1, 1:].add_(dual[:2])
        value, tangent = unpack_dual(buffer)
        np.testing.assert_allclose(value.numpy(), [2 * x.numpy(), [0, *x.numpy()[:2]]])
        np.testing.assert_allclose(tangent.numpy(), [2 * v.numpy(), [0, *v.numpy()[:2]]])
        assert unpack_dual(dual.detach()).tangent is None
        gone = dual.clone()
        gone.detach_()
        assert unpack_dual(gone * 2).tangent is None
        flags = weft.zeros(3, dtype=weft.bool)
        flags.copy_(dual > 1)
    assert type(buffer._data) is np.ndarray and repr(buffer) == repr(value)
    buffer.add_(1)
    np.testing.assert_allclose(beside.numpy(), [1, *(1 + x.numpy()[:2])])
    assert repr(dual) == repr(x) and forward_ad.unpack_dual(dual).tangent is None


def test_tangents_are_written_into_what_factories_made(rng):
    x, v = point(rng, 2), point(rng, 2)
    with dual_level():
        dual = make_dual(x, v)
        for make in (weft.rand, weft.zeros, weft.randn, lambda *a, **k: weft.rand_like(x), weft.empty):
            buffer = make(2, dtype=weft.float64)
            assert not buffer._is_view()
            buffer[0] = dual[1]
            buffer[1] = 3.0
            np.testing.assert_allclose(unpack_dual(buffer).tangent.numpy(), [float(v[1]), 0])


def test_what_may_not_be_written(rng):
    leaf = point(rng, 3).requires_grad_()
    with dual_level():
        dual = make_dual(point(rng, 3), point(rng, 3))
        with pytest.raises(RuntimeError, match="leaf"):
            leaf.add_(dual)
        with pytest.raises(RuntimeError, match="leaf"):
            make_dual(leaf, dual.detach()).mul_(2)


def test_detach_in_place_ends_every_history(rng):
    x = point(rng)

    def f(y: Any) -> Any:
        z = y * y
        z.detach_()
        return z * y

    assert float(weft.func.grad(weft.func.grad(f))(x)) == pytest.approx(0)
    assert float(weft.func.grad(lambda x: weft.func.grad(f)(x) * x)(x)) == pytest.approx(float(x * x))
    assert float(weft.func.jvp(weft.func.grad(f), (x,), (weft.ones((), dtype=weft.float64),))[1]) == pytest.approx(0)
