"""jvp, linearize and forward_ad: products with the Jacobian against closed forms, writes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.autograd.forward_ad as forward_ad
from weft.func import grad, jvp, linearize, vmap


def point(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape))


def test_jvp_of_trees(rng):
    a, b = point(rng, 3), point(rng, 3)
    u, v = point(rng, 3), point(rng, 3)
    (out, pushed) = jvp(lambda p: {"m": p["a"] * p["b"], "n": weft.ones(2)}, ({"a": a, "b": b},), ({"a": u, "b": v},))
    np.testing.assert_allclose(out["m"].numpy(), a.numpy() * b.numpy())
    np.testing.assert_allclose(pushed["m"].numpy(), u.numpy() * b.numpy() + a.numpy() * v.numpy())
    np.testing.assert_array_equal(pushed["n"].numpy(), np.zeros(2))
    *_, aux = jvp(lambda a: (a * 2, a), (a,), (u,), has_aux=True)
    np.testing.assert_array_equal(aux.numpy(), a.numpy())


def test_writes_leave_the_tangents_of_the_caller(rng):
    x, t = point(rng, 4), point(rng, 4)
    before = x.numpy().copy(), t.numpy().copy()

    def f(x: Any) -> Any:
        y = x.clone()
        y[1:3].mul_(x[:2])
        y[0] = 5
        return y.sin_()

    _, pushed = jvp(f, (x,), (t,))
    step = 1e-6
    slope = (f(x + step * t) - f(x - step * t)) / (2 * step)
    np.testing.assert_allclose(pushed.numpy(), slope.numpy(), rtol=1e-6, atol=1e-8)
    written = x.clone()
    _, doubled = jvp(lambda x: x.mul_(2) * 1, (written,), (t,))
    np.testing.assert_allclose(doubled.numpy(), 2 * t.numpy())
    np.testing.assert_allclose(written.numpy(), 2 * before[0])
    np.testing.assert_array_equal(t.numpy(), before[1])


def test_forward_over_reverse_over_forward(rng):
    x = point(rng)
    third = jvp(
        lambda x: grad(lambda x: jvp(weft.exp, (x * 2,), (weft.ones_like(x),))[1])(x), (x,), (weft.ones_like(x),)
    )[1]
    assert float(third) == pytest.approx(4 * np.exp(2 * float(x)))


def test_linearize_runs_the_function_once(rng):
    calls: list[int] = []
    m, x = point(rng, 4, 3), point(rng, 3)

    def f(x: Any) -> Any:
        calls.append(1)
        return (m @ x).tanh()

    _, push = linearize(f, x)
    jacobian = (1 - np.tanh(m.numpy() @ x.numpy()) ** 2)[:, None] * m.numpy()
    for _ in range(3):
        t = point(rng, 3)
        np.testing.assert_allclose(push(t).numpy(), jacobian @ t.numpy())
    assert len(calls) == 1
    np.testing.assert_allclose(vmap(push)(weft.eye(3, dtype=weft.float64)).numpy(), jacobian.T)


def test_what_is_refused(rng):
    x, outside = point(rng, 3), weft.zeros(3, dtype=weft.float64)
    cases = [
        (lambda: jvp(weft.sin, (x,), x), "same python structure"),
        (lambda: jvp(weft.sin, (x,), (x, x)), "same python structure"),
        (lambda: jvp(weft.sin, (x,), (x[:2],)), "different size than that of the original"),
        (lambda: jvp(weft.sin, (x,), (x.float(),)), "dtype"),
        (lambda: jvp(weft.sin, x, x), "Expected primals to be a tuple"),
        (lambda: jvp(lambda x: 2.0, (x,), (x,)), "to return only tensors"),
        (lambda: jvp(lambda x: outside.add_(x), (x,), (x,)), "mutate a captured Tensor"),
        (lambda: jvp(lambda x: weft.ones(2), (x,), (x,), strict=True), "independent of the inputs"),
    ]
    for call, text in cases:
        with pytest.raises((RuntimeError, ValueError), match=text):
            call()


# ---- tangents by hand


def test_dual_tensors(rng):
    x, t, w = point(rng, 3), point(rng, 3), point(rng, 3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        assert forward_ad.unpack_dual(dual).tangent is t
        assert forward_ad.unpack_dual(w) == (w, None)
        out = (dual * w).exp().sum()
        value, pushed = forward_ad.unpack_dual(out)
        plain = w * 2
        assert type(plain._data) is np.ndarray
    expected = np.exp(x.numpy() * w.numpy())
    assert float(value) == pytest.approx(expected.sum())
    assert float(pushed) == pytest.approx((expected * w.numpy() * t.numpy()).sum())
    assert forward_ad.unpack_dual(out).tangent is None
    np.testing.assert_allclose((dual + 1).numpy(), x.numpy() + 1)


def test_reverse_over_dual_tensors(rng):
    x, t = point(rng, 3).requires_grad_(), point(rng, 3)
    with forward_ad.dual_level():
        _, pushed = forward_ad.unpack_dual(forward_ad.make_dual(x, t).pow(3).sum())
        pushed.backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.detach().numpy() * t.numpy())


def test_modules_with_dual_parameters(rng):
    layer = weft.nn.Linear(3, 2).double()
    x, direction = point(rng, 4, 3), point(rng, 2, 3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(layer.weight, direction)
        out = weft.nn.functional.linear(x, dual, layer.bias)
        pushed = forward_ad.unpack_dual(out).tangent
    np.testing.assert_allclose(pushed.detach().numpy(), x.numpy() @ direction.numpy().T)


def test_levels_by_hand(rng):
    x = point(rng, 3)
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)
    with pytest.raises(RuntimeError, match="no level is currently active"):
        forward_ad.exit_dual_level()
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match="different size"):
            forward_ad.make_dual(x, x[:2])
        with pytest.raises(ValueError, match="floating point or complex"):
            forward_ad.make_dual(weft.arange(3), weft.arange(3))
    assert weft.autograd.forward_ad is forward_ad
