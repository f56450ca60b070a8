"""grad, grad_and_value, vjp, jacrev: values against closed forms, pytrees, grad mode, writes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.func import grad, grad_and_value, hessian, jacfwd, jacrev, vjp, vmap


def point(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape))


def test_grad_of_any_order(rng):
    x = point(rng)
    f = weft.sin
    for k in range(1, 6):
        f = grad(f)
        assert float(f(x)) == pytest.approx(float(np.sin(float(x) + k * np.pi / 2)), abs=1e-12)


def test_argnums_and_pytrees(rng):
    state, x = {"w": point(rng, 2, 3), "b": (point(rng, 2),)}, point(rng, 3)

    def f(p: Any, x: Any, scale: float = 1.0) -> Any:
        return scale * (p["w"] @ x + p["b"][0]).pow(2).sum()

    y = state["w"].numpy() @ x.numpy() + state["b"][0].numpy()
    found = grad(f)(state, x)
    np.testing.assert_allclose(found["w"].numpy(), 2 * np.outer(y, x.numpy()))
    np.testing.assert_allclose(found["b"][0].numpy(), 2 * y)
    both = grad(f, argnums=(0, -1))(state, x)
    np.testing.assert_allclose(both[1].numpy(), 2 * state["w"].numpy().T @ y)
    np.testing.assert_allclose(grad(f, argnums=1)(state, x, scale=3.0).numpy(), 6 * state["w"].numpy().T @ y)
    gradient, (value, aux) = grad_and_value(lambda x: ((x * x).sum(), {"norm": x.norm()}), has_aux=True)(x)
    np.testing.assert_allclose(gradient.numpy(), 2 * x.numpy())
    assert float(value) == pytest.approx((x.numpy() ** 2).sum()) and float(aux["norm"]) == pytest.approx(np.linalg.norm(
        x.numpy()
    ))
    assert type(aux["norm"]._data) is np.ndarray


def test_grad_mode_counts_inside_only(rng):
    x = point(rng)

    def f(x: Any) -> Any:
        with weft.no_grad():
            constant = x * x
        return x * constant

    assert float(grad(f)(x)) == pytest.approx(float(x) ** 2)
    with weft.no_grad():
        assert float(grad(lambda x: x.pow(3))(x)) == pytest.approx(3 * float(x) ** 2)
        assert float(grad(grad(lambda x: x.pow(3)))(x)) == pytest.approx(6 * float(x))
        leaf = x.clone().requires_grad_()
        assert not grad(lambda x: x.pow(3))(leaf).requires_grad


def test_detach_is_constant_at_every_level(rng):
    x = point(rng)
    assert float(grad(grad(lambda x: x.detach() * x * x))(x)) == pytest.approx(2 * float(x))


def test_outer_autograd_goes_through(rng):
    x = point(rng, 3).requires_grad_()
    grad(lambda x: x.pow(3).sum())(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.detach().numpy())


def test_captured_tensors_that_require_grad(rng):
    w, x = point(rng, 3).requires_grad_(), point(rng, 3)
    grad(lambda x: (w * x * x).sum())(x).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * x.numpy())


def test_vjp_many_times(rng):
    a, b = point(rng, 3), point(rng)
    out, pull = vjp(lambda a, b: {"p": a * b, "s": a.sum()}, a, b)
    np.testing.assert_allclose(out["p"].numpy(), a.numpy() * float(b))
    for _ in range(2):
        u, v = point(rng, 3), point(rng)
        of_a, of_b = pull({"p": u, "s": v})
        np.testing.assert_allclose(of_a.numpy(), u.numpy() * float(b) + float(v))
        assert float(of_b) == pytest.approx(u.numpy() @ a.numpy())
    _, pull, aux = vjp(lambda a: (a * 2, a + 1), a, has_aux=True)
    np.testing.assert_allclose(pull(u)[0].numpy(), 2 * u.numpy())
    np.testing.assert_allclose(aux.numpy(), a.numpy() + 1)


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians_of_trees(jacobian, rng):
    a, b, m = point(rng, 2), point(rng, 3), point(rng, 4, 2)

    def f(a: Any, b: Any) -> Any:
        return {"y": m @ a, "z": a.sum() * b}

    found = jacobian(f, argnums=(0, 1))(a, b)
    np.testing.assert_allclose(found["y"][0].numpy(), m.numpy())
    np.testing.assert_allclose(found["y"][1].numpy(), np.zeros((4, 3)))
    np.testing.assert_allclose(found["z"][0].numpy(), np.repeat(b.numpy()[:, None], 2, 1))
    np.testing.assert_allclose(found["z"][1].numpy(), float(a.sum()) * np.eye(3))
    rows, aux = jacobian(lambda a: (m @ a, a * 2), has_aux=True)(a)
    np.testing.assert_allclose(rows.numpy(), m.numpy())
    np.testing.assert_allclose(aux.numpy(), 2 * a.numpy())
    higher = jacobian(jacobian(lambda x: x.pow(3)))(a)
    np.testing.assert_allclose(higher.numpy(), np.einsum("i,ij,ik->ijk", 6 * a.numpy(), np.eye(2), np.eye(2)))


def test_jacrev_in_chunks(rng):
    m, x = point(rng, 5, 3), point(rng, 3)
    for size in (1, 2, 5, 9):
        np.testing.assert_allclose(jacrev(lambda x: m @ x, chunk_size=size)(x).numpy(), m.numpy())
    with pytest.raises(ValueError, match="chunk_size"):
        jacrev(lambda x: x, chunk_size=0)


def test_hessian_of_a_quadratic_form(rng):
    m, x = point(rng, 3, 3), point(rng, 3)
    np.testing.assert_allclose(hessian(lambda x: x @ m @ x)(x).numpy(), m.numpy() + m.numpy().T)
    blocks = hessian(lambda x, y: x @ m @ y, argnums=(0, 1))(x, x)
    np.testing.assert_allclose(blocks[0][1].numpy(), m.numpy())


def test_what_is_refused(rng):
    x, outside = point(rng, 3), weft.zeros(3, dtype=weft.float64)
    cases = [
        (lambda: grad(lambda x: x)(x), "to return a scalar Tensor, got tensor with 1 dims"),
        (lambda: grad(lambda x: 2.0)(x), "Expected f.* to return a Tensor, got <class 'float'>"),
        (lambda: grad(lambda x: x.sum(), argnums=1)(x), "Got argnum=1, but only 1 positional inputs"),
        (lambda: grad(lambda x: x.sum(), argnums=())(x), "argnums must be non-empty"),
        (lambda: grad(lambda x: x.sum())(weft.arange(3)), "floating point"),
        (lambda: grad(lambda x: x * 2)(2.0), "Thing passed to transform API must be Tensor"),
        (lambda: grad(lambda x: x.sin_().sum())(x), "a leaf Variable that requires grad"),
        (lambda: grad(lambda x: outside.add_(x).sum())(x), "mutate a captured Tensor"),
        (lambda: grad(lambda x: (x.sum().backward(), x.sum())[1])(x), "backward.. called inside a functorch transform"),
        (lambda: vjp(lambda x: x, x)[1]((x, x)), "Expected pytree structure of cotangents"),
        (lambda: vjp(lambda x: x, x)[1](x[:2]), "Mismatch in shape"),
        (lambda: vjp(lambda x: 2.0, x), "to return only tensors"),
        (lambda: grad_and_value(lambda x: x.sum(), has_aux=True)(x), "should be a tuple"),
    ]
    for call, text in cases:
        with pytest.raises((RuntimeError, ValueError), match=text):
            call()
    assert weft.tensor_state_is_clean() if hasattr(weft, "tensor_state_is_clean") else outside.sum() == 0


def test_an_output_that_does_not_depend(rng):
    np.testing.assert_array_equal(grad(lambda x: weft.ones(()))(point(rng, 3)).numpy(), np.zeros(3))


def test_repr_shows_level_and_value():
    seen: list[str] = []
    grad(lambda x: (seen.append(repr(x)), x.sum())[1])(weft.tensor([1.0, 2.0]))
    assert seen == ["GradTrackingTensor(lvl=1, value=\n    tensor([1., 2.])\n)"]


def test_a_tensor_that_came_out_is_its_value(rng):
    kept: list[Any] = []
    x = point(rng, 3)
    grad(lambda x: (kept.append(x.detach() * 2), x.sum())[1])(x)
    np.testing.assert_allclose((kept[0] + 1).numpy(), 2 * x.numpy() + 1)


def test_levels_are_gone_after_an_error(rng):
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: 1 / 0)(point(rng))
    assert weft.tensor(1.0).add(1).item() == 2 and grad(weft.sin)(point(rng)).ndim == 0


def test_in_inference_mode(rng):
    with weft.inference_mode():
        x = point(rng, 3)
        np.testing.assert_allclose(
            grad(lambda x: (x.sin() * x)[1:].sum())(x).numpy()[1:],
            (np.cos(x.numpy()) * x.numpy() + np.sin(x.numpy()))[1:],
        )
        np.testing.assert_allclose(hessian(lambda x: x.pow(3).sum())(x).numpy(), np.diag(6 * x.numpy()))
        np.testing.assert_allclose(
            vmap(grad(lambda x: x.sin().sum()))(x.outer(x)).numpy(), np.cos(np.outer(x.numpy(), x.numpy()))
        )
        assert weft.is_inference_mode_enabled() and (x + 1).is_inference()
