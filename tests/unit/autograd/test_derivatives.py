"""gradcheck, functional, forward, checkpoint, graph: the tools around gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function, GradcheckError, functional, gradcheck, gradgradcheck, graph
from weft.autograd.forward import jvp
from weft.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


class Wrong(Function):
    """Its gradient is off, by a factor that depends on the seed's sign when `order` is 2."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, order: int) -> weft.Tensor:
        ctx.save_for_backward(x)
        ctx.order = order
        return x * x

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return (g * x * 2.0 if ctx.order == 2 else g * x * 3.0).detach() + 0.0 * x * g, None


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_finds_wrong_gradients(rng: Rng, fast: bool) -> None:
    x = leaf(rng, 3)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(lambda t: Wrong.apply(t, 1), (x,), fast_mode=fast)
    assert gradcheck(lambda t: Wrong.apply(t, 1), (x,), fast_mode=fast, raise_exception=False) is False
    assert gradcheck(lambda t: Wrong.apply(t, 2), (x,), fast_mode=fast)
    assert not gradgradcheck(lambda t: Wrong.apply(t, 2), (x,), fast_mode=fast, raise_exception=False)
    assert gradcheck(lambda t: (t.sin(), t.prod()), (x,), fast_mode=fast, check_batched_grad=True)


def test_gradcheck_looks_at_its_inputs(rng: Rng) -> None:
    with pytest.raises(ValueError, match="at least one input"):
        gradcheck(lambda t: t, (leaf(rng, 2).detach(),))
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda t: t * 2.0, (weft.ones(2, requires_grad=True),), atol=1e-1, eps=1e-2)
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda t: t * 2.0, (weft.ones(1, dtype=weft.float64).expand(3).requires_grad_(),))
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda t: t.detach() * 2.0, (leaf(rng, 2),))


def test_gradcheck_finds_what_is_not_reentrant(rng: Rng) -> None:
    calls = [0]

    class Noisy(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            calls[0] += 1
            return g * (1.0 + 1e-7 * (calls[0] % 2))

    x = leaf(rng, 2)
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Noisy.apply, (x,))
    assert gradcheck(Noisy.apply, (x,), nondet_tol=1e-5)


def test_gradcheck_of_complex_functions(rng: Rng) -> None:
    z = weft.from_numpy(rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2))).requires_grad_()
    for f in (lambda t: t * t.conj(), lambda t: t.exp(), lambda t: t.abs(), lambda t: weft.view_as_real(t)):
        assert gradcheck(f, (z,)) and gradcheck(f, (z.detach().t().requires_grad_(),), fast_mode=True)


def test_functional_against_closed_forms(rng: Rng) -> None:
    x, y = leaf(rng, 3), leaf(rng, 2, 3)
    v, u = leaf(rng, 3).detach(), leaf(rng, 2, 3).detach()
    xv, yv = x.detach().numpy(), y.detach().numpy()
    np.testing.assert_allclose(functional.jacobian(lambda t: t**2, x).numpy(), np.diag(2 * xv))
    (jx, jy), (sx, sy) = functional.jacobian(lambda a, b: (a * b, a.sum()), (x, y))
    assert (
        jx.shape == (2, 3, 3) and jy.shape == (2, 3, 2, 3) and sx.tolist() == [1.0] * 3
        and sy.tolist() == [[0.0] * 3] * 2
    )
    np.testing.assert_allclose(np.einsum("ijk->ij", jx.numpy()), yv)
    np.testing.assert_allclose(functional.hessian(lambda t: (t**3).sum(), x).numpy(), np.diag(6 * xv))
    (hxx, hxy), (hyx, _) = functional.hessian(lambda a, b: (a * b).sum(), (x, y))
    assert not hxx.numpy().any()
    np.testing.assert_allclose(hxy.numpy(), np.einsum("ijk->kij", hyx.numpy()))
    for name, expected in (("hvp", 6 * xv * v.numpy()), ("vhp", 6 * xv * v.numpy())):
        value, product = getattr(functional, name)(lambda t: (t**3).sum(), x, v)
        np.testing.assert_allclose(product.numpy(), expected)
        np.testing.assert_allclose(value.item(), (xv**3).sum())
        assert not product.requires_grad
    np.testing.assert_allclose(
        functional.jvp(lambda a, b: a * b, (x, y), (v, u))[1].numpy(), v.numpy() * yv + xv * u.numpy()
    )
    ga, gb = functional.vjp(lambda a, b: a * b, (x, y), u)[1]
    np.testing.assert_allclose(ga.numpy(), (u.numpy() * yv).sum(0))
    np.testing.assert_allclose(gb.numpy(), u.numpy() * xv)
    np.testing.assert_allclose(jvp(lambda t: t.exp(), (x,), (v,))[1].numpy(), np.exp(xv) * v.numpy())


def test_functional_create_graph_strict_and_words(rng: Rng) -> None:
    x = leaf(rng, 2)
    assert gradcheck(lambda t: functional.jacobian(lambda s: s**3, t, create_graph=True), (x,))
    assert gradcheck(
        lambda t: functional.hvp(lambda s: (s**4).sum(), t, t.detach() * 0 + 1.0, create_graph=True)[1], (x,)
    )
    with pytest.raises(RuntimeError, match="strict"):
        functional.jacobian(lambda t: weft.ones(2), x, strict=True)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        functional.vjp(lambda a, b: a.sum(), (x, x * 1.0), strict=True)
    with pytest.raises(RuntimeError, match="invalid size"):
        functional.jvp(lambda t: t, x, weft.ones(3))
    with pytest.raises(RuntimeError, match="single element"):
        functional.hessian(lambda t: t, x)
    with pytest.raises(TypeError, match="must be either a Tensor or a tuple of Tensors"):
        functional.jacobian(lambda t: 3.0, x)
    with pytest.raises(RuntimeError, match="same structure"):
        jvp(lambda t: t, (x,), ())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_gives_the_same_gradients_and_random_numbers(rng: Rng, reentrant: bool) -> None:
    x, w = leaf(rng, 4, 3), leaf(rng, 3, 3)

    def region(t: weft.Tensor) -> weft.Tensor:
        return weft.nn.functional.dropout((t @ w).sin(), 0.5).exp()

    weft.manual_seed(5)
    plain = region(x)
    expected = weft.autograd.grad(plain.sum(), (x, w))
    weft.manual_seed(5)
    again = checkpoint(region, x, use_reentrant=reentrant)
    state = weft.random.get_rng_state().tolist()
    weft.rand(3)
    again.sum().backward()
    assert again.tolist() == plain.tolist()
    np.testing.assert_allclose(x.grad.numpy(), expected[0].numpy())
    np.testing.assert_allclose(w.grad.numpy(), expected[1].numpy())
    weft.manual_seed(5)
    checkpoint(region, x, use_reentrant=reentrant)
    assert weft.random.get_rng_state().tolist() == state


def test_checkpoint_keeps_nothing_and_runs_once_more(rng: Rng) -> None:
    x, runs = leaf(rng, 3), [0]

    def region(t: weft.Tensor) -> weft.Tensor:
        runs[0] += 1
        return t.exp().sin().exp()

    y = checkpoint(region, x)
    assert runs == [1]
    y.sum().backward(retain_graph=True)
    assert runs == [2]
    first = x.grad.clone()
    y.sum().backward()
    assert runs == [3]
    np.testing.assert_allclose(x.grad.numpy(), 2 * first.numpy())
    assert gradgradcheck(lambda t: checkpoint(lambda s: s.exp() * s.sin(), t), (x,), fast_mode=True)


def test_checkpoint_of_regions_that_change(rng: Rng) -> None:
    x, runs = leaf(rng, 3), [0]

    def region(t: weft.Tensor) -> weft.Tensor:
        runs[0] += 1
        return t.exp().sin() if runs[0] == 1 else t.exp()

    with pytest.raises(CheckpointError, match="different number of tensors"):
        checkpoint(region, x).sum().backward()

    def other(t: weft.Tensor) -> weft.Tensor:
        runs[0] += 1
        return (t if runs[0] % 2 else t[:2]).exp().sum()

    runs[0] = 0
    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(other, x).backward()
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(region, x, determinism_check="some")


def test_checkpoint_sequential_and_capture(rng: Rng) -> None:
    layers = weft.nn.Sequential(*[weft.nn.Linear(3, 3) for _ in range(4)])
    x = weft.randn(2, 3)
    layers(x).sum().backward()
    expected = [p.grad.tolist() for p in layers.parameters()]
    layers.zero_grad()
    checkpoint_sequential(layers, 2, x).sum().backward()
    for p, e in zip(layers.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), e, rtol=1e-5, atol=1e-6)
    w = leaf(rng, 3)

    def step(t: weft.Tensor) -> Any:
        checkpoint(lambda s: weft.nn.functional.dropout((s * w).sin(), 0.5).exp(), t).sum().backward()
        out = w.grad
        w.grad = None
        return out

    t = leaf(rng, 3).detach()
    weft.manual_seed(2)
    eager = step(t)
    weft.manual_seed(2)
    np.testing.assert_allclose(weft.compile(step)(t).numpy(), eager.numpy(), rtol=1e-10)


def test_graph_helpers(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = x.exp()
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0 and isinstance(edge.node, graph.Node)
    assert graph.get_gradient_edge(x).node.variable is x
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(x.detach())
    y.grad_fn.metadata["mine"] = 3
    assert y.grad_fn.metadata == {"mine": 3}
