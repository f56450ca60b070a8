"""One graph walked by the engine and by captured programs in turn; checkpoints, backward inside backward, and formulas
that give no gradient."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.ops.op import define, joint
from weft.ops.packet import aten
from weft.support.counters import counters
from weft.utils.checkpoint import checkpoint

Rng = np.random.Generator
WRAPS = [lambda f: f, weft.compile]


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


@pytest.mark.parametrize("wrap", WRAPS, ids=["eager", "compiled"])
@pytest.mark.parametrize("order", [1, 2])
def test_t_ca_5_one_graph_walked_in_turn(rng: Rng, wrap: Any, order: int) -> None:
    """The same graph, kept, walked by the engine, natively and node by node: the same gradients each time, and no
    capture for the second native walk."""
    f = wrap(lambda a, b: (a @ b).tanh() * b.sum(0))
    a, b = leaf(rng, int(rng.integers(2, 6)), 3), leaf(rng, 3, int(rng.integers(2, 6)))
    loss = f(a, b).exp().sum() * f(a * 2, b).sum()
    found, captured = [], []
    for walk in (nullcontext, ca.enable, lambda: ca.enable(ca.interpret), nullcontext, ca.enable):
        before = counters.captures
        with walk():
            gradients = weft.autograd.grad(loss, (a, b), retain_graph=True, create_graph=order == 2)
            if order == 2:
                gradients = weft.autograd.grad(gradients[0].square().sum(), (a, b), retain_graph=True)
        found.append([g.detach().numpy().copy() for g in gradients])
        captured.append(counters.captures - before)
    for other in found[1:]:
        for g, e in zip(other, found[0], strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-11)
    assert captured[3:] == [0, 0]
    loss.backward()
    with ca.enable(), pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


@pytest.mark.parametrize("mixed", ["engine then compiled", "compiled then engine"])
def test_a_higher_order_begun_by_one_and_ended_by_the_other(rng: Rng, mixed: str) -> None:
    x = leaf(rng, 4)
    f = weft.compile(lambda x: (x * x).sin())
    first, second = (nullcontext, ca.enable) if mixed.startswith("engine") else (ca.enable, nullcontext)
    with first():
        (slope,) = weft.autograd.grad((f(x) * x).sum(), x, create_graph=True)
    with second():
        (bend,) = weft.autograd.grad(slope.sum(), x)
    v = x.detach().numpy()
    expected = 6 * v * np.cos(v**2) - 4 * v**3 * np.sin(v**2)
    np.testing.assert_allclose(bend.numpy(), expected)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("wrap", WRAPS, ids=["eager", "compiled"])
def test_checkpoints_draw_again_what_they_drew(rng: Rng, reentrant: bool, wrap: Any) -> None:
    layer = wrap(lambda x: weft.nn.functional.dropout(x.exp(), 0.5))
    x = leaf(rng, 40)
    for walk in (nullcontext, ca.enable, ca.enable):
        x.grad = None
        weft.manual_seed(int(rng.integers(1000)))
        with walk():
            out = checkpoint(lambda t: layer(t * 1.0), x, use_reentrant=reentrant)
            after = weft.rand(1)
            out.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), out.detach().numpy())  # exp and its mask, drawn again
        assert 0.3 < (out != 0).double().mean() < 0.7 and not weft.equal(after, weft.rand(1))


def test_t_ca_7_backward_inside_backward(rng: Rng) -> None:
    """A Function and a hook that run backward calls of their own, through compiled forwards."""
    inner = weft.compile(lambda t: (t.sin() * t).sum())
    seen: list[Any] = []

    class Slope(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            with weft.enable_grad():
                t = ctx.saved_tensors[0].detach().requires_grad_()
                inner(t).backward()
            return g * t.grad

    def hook(g: weft.Tensor) -> weft.Tensor:
        t = g.detach().requires_grad_()
        with weft.enable_grad():
            (slope,) = weft.autograd.grad(inner(t), t)
        seen.append(slope.numpy().copy())
        return g + slope

    gradients = []
    for walk in (nullcontext, ca.enable, ca.enable):
        x = weft.from_numpy(np.linspace(-1, 1, 5)).requires_grad_()
        y = Slope.apply(x) * 2
        y.register_hook(hook)
        with walk():
            (y * y).sum().backward()
        gradients.append(x.grad.numpy())
    for g, s in zip(gradients[1:], seen[1:], strict=True):
        np.testing.assert_allclose(g, gradients[0], rtol=1e-12)
        np.testing.assert_allclose(s, seen[0], rtol=1e-12)


def _without_second(g: Any, needs: Any, a: Any) -> tuple[Any, Any]:
    return (g * a if needs[0] else None), None


HALF = define(
    "test_mixed::half(Tensor a, Tensor b) -> Tensor", "a * a / 2, whose formula gives no gradient for b.",
    type=lambda a, b: a, kernel=lambda a, b: a * a / 2, vjp=joint(("a", "b"), _without_second), public=(),
)


@pytest.mark.parametrize("backend", ["llvm", "interpret", "numpy"])
def test_a_formula_that_gives_no_gradient(rng: Rng, backend: str) -> None:
    """Results keep their places where one is missing, in a program and in a captured backward."""
    half = aten.__class__("test_mixed").half
    a, b = leaf(rng, 3), leaf(rng, 3)

    def gradients(f: Any) -> list[Any]:
        return [
            None if g is None else g.numpy()
            for g in weft.autograd.grad((f(a, b) * b).sum(), (a, b), allow_unused=True)
        ]

    expected = [a.detach().numpy() * b.detach().numpy(), (a * a / 2).detach().numpy()]
    with ca.enable():
        captured = gradients(half)
    step = weft.compile(lambda a, b: weft.autograd.grad((half(a, b) * b).sum(), (a, b)), backend=backend)
    for found in (gradients(half), captured, gradients(weft.compile(half)), [g.numpy() for g in step(a, b)]):
        for g, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(g, e)
