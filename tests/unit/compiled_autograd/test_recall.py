"""A structure that was seen before is recognised while it is walked; what is found is what writing it down gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.compiled_autograd.recalled import compared
from weft import compiled_autograd as ca
from weft.compiled_autograd import cache
from weft.support.counters import counters

Rng = np.random.Generator


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    ca.reset()


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def test_a_cached_run_writes_no_steps(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: the walk is recorded once, then never again."""
    written: list[int] = []
    record = cache.record
    monkeypatch.setattr(cache, "record", lambda *given: (written.append(1), record(*given))[1])
    model = weft.nn.Sequential(weft.nn.Linear(4, 5), weft.nn.Tanh(), weft.nn.Linear(5, 2))
    with ca.enable(ca.interpret):
        for _ in range(9):
            model(weft.randn(int(rng.integers(0, 9)), 4)).square().sum().backward()
    assert len(written) == 1


def _variants(x: weft.Tensor, y: weft.Tensor) -> list[Callable[[], weft.Tensor]]:
    """Losses that differ in one thing each."""
    held = x.detach()

    def hooked(post: bool, pre: bool, tensor: bool) -> weft.Tensor:
        z = x * y
        if tensor:
            z.register_hook(lambda g: g * 2)
        if pre:
            z.grad_fn.register_prehook(lambda gs: (gs[0] * 3,))
        if post:
            z.grad_fn.register_hook(lambda ins, outs: (ins[0] * 5, ins[1]))
        return z.sum()

    def written() -> weft.Tensor:
        z = x * 1.0
        z[1:].mul_(y[1:])
        return z.sum()

    return [
        lambda: (x * y).sum(), lambda: (y * x).sum(), lambda: (x * x).sum(), lambda: (x * held).sum(),
        lambda: (x * y.detach()).sum(), lambda: (x - y).sum(), lambda: (x * y).sum(0).sum(),
        lambda: (x * y).sum(1).sum(),
        lambda: (x * y)[0].sum(), lambda: (x * y)[1].sum(), lambda: (x * y).t().sum(), lambda: (x * 2.0).sum(),
        lambda: (x * 2).sum(), lambda: (x**3).sum(), lambda: (x**2.0).sum(), lambda: (x.float() * 2).sum(),
        lambda: weft.cat([x, y]).sum(), lambda: weft.cat([y, x, x], 1).sum(), lambda: weft.cat([x, y], 1)[1:].sum(),
        lambda: sum(x.unbind(0)[i].sum() * (i + 1) for i in range(2)), lambda: x.unbind(0)[1].sum(),
        lambda: (x + x).sum(), lambda: (x.sin() + x.sin()).sum(), lambda: ((s := x.sin()) + s).sum(),
        lambda: hooked(False, False, True), lambda: hooked(False, True, False), lambda: hooked(True, False, False),
        lambda: hooked(True, True, True), written, lambda: (x @ y).sum(), lambda: (x @ y.t()).sum(),
        lambda: weft.maximum(x, y).sum(), lambda: x.max(0).values.sum(), lambda: x.max(1).values.sum(),
        lambda: (x[:, None] * y).sum(), lambda: x.expand(3, 2, 2).sum(), lambda: x.cumsum(0).sum(),
        lambda: x.cumsum(1).sum(), lambda: weft.where(x > 0, x, y).sum(), lambda: x.flatten().softmax(0)[1].sum(),
    ]


def test_what_is_recalled_is_the_structure_itself(rng: Rng) -> None:
    """Losses that differ in an edge, a dim, a constant, a hook or a dtype, in a drawn order and again and again:
    each is recalled with its own gradients, and never with those of another."""
    x, y = leaf(rng, 2, 2), leaf(rng, 2, 2)
    losses = _variants(x, y)
    expected = [_gradients(loss, x, y) for loss in losses]
    with ca.enable(ca.interpret), compared() as recalled:
        for _ in range(6):
            order = [int(i) for i in rng.permutation(len(losses))]
            for i in [j for j in order for _ in range(2)]:
                for found, wanted in zip(_gradients(losses[i], x, y), expected[i], strict=True):
                    assert (found is None) == (wanted is None)
                    if wanted is not None:
                        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert len(recalled) > 4 * len(losses)


def _gradients(loss: Callable[[], weft.Tensor], *leaves: weft.Tensor) -> list[Any]:
    for p in leaves:
        p.grad = None
    loss().backward()
    return [None if p.grad is None else p.grad.numpy().copy() for p in leaves]


def test_which_gradients_are_asked_for(rng: Rng) -> None:
    x, y = leaf(rng, 3), leaf(rng, 3)
    other = leaf(rng, 3)
    with ca.enable(), compared() as recalled:
        for _ in range(3):
            for wanted in ((x,), (y,), (x, y), (y, x), (x, x), (x, other), (other, x)):
                z = x.sin()
                for asked in (wanted, (z, *wanted)):
                    found = weft.autograd.grad((z * y).sum(), asked, allow_unused=True, retain_graph=True)
                    for gradient, t in zip(found, asked, strict=True):
                        if t is other:
                            assert gradient is None
                            continue
                        expected = y * x.cos() if t is x else z if t is y else y
                        np.testing.assert_allclose(gradient.numpy(), expected.detach().numpy())
    assert recalled


def test_one_tensor_or_two_equal_ones(rng: Rng) -> None:
    """A tensor that several nodes save is one input; two that are equal are two, also where only that differs."""
    x, a = leaf(rng, 3), weft.from_numpy(rng.standard_normal(3))
    b = a.clone()
    for pair, inputs in (((a, a), 1), ((a, b), 2), ((a, a), 1), ((b, a), 2)):
        for _ in range(3):
            with ca.enable(), compared():
                (x * pair[0] + x * pair[1]).sum().backward()
            assert len(ca.last_graph().tensor_inputs) == inputs + 1  # and the gradient that the walk begins with


def test_a_recalled_walk_looks_at_versions_and_freed_graphs(rng: Rng) -> None:
    x = leaf(rng, 3)

    def loss(write: bool) -> weft.Tensor:
        y = x * 1.0
        z = (y * y).sum()
        if write:
            with weft.no_grad():
                y.add_(1)
        return z

    with ca.enable():
        for _ in range(4):
            loss(False).backward()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss(True).backward()
        z = loss(False)
        z.backward()
        with pytest.raises(RuntimeError, match="second time"):
            z.backward()


def test_missing_gradients_after_a_recalled_walk(rng: Rng) -> None:
    """A custom backward gives other gradients than the last time, after nodes before it have let go of what they
    saved."""

    class Maybe(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: weft.Tensor, b: weft.Tensor, which: tuple[bool, bool]) -> weft.Tensor:
            ctx.which = which
            return a * 2 + b

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            return g * 2 if ctx.which[0] else None, g if ctx.which[1] else None, None

    before = counters.captures
    drawn = [(bool(p), bool(q)) for p, q in rng.integers(0, 2, (24, 2))]
    for which in [pair for pair in drawn for _ in range(3)]:
        a, b = leaf(rng, 3), leaf(rng, 3)
        seen: list[int] = []
        with weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t, seen=seen: (seen.append(1), t)[1]):
            late = (a * b).sin()
        with ca.enable(), compared():
            (Maybe.apply(a.exp(), late, which) ** 2).sum().backward()
        v, w = a.detach().numpy(), b.detach().numpy()
        outer = 2 * (2 * np.exp(v) + np.sin(v * w))
        down = outer * np.cos(v * w)
        wanted_a = (outer * 2 * np.exp(v) if which[0] else 0) + (down * w if which[1] else 0)
        assert (a.grad is None) == (which == (False, False)) and (b.grad is None) == (not which[1])
        assert len(seen) == (3 if which[1] else 0)
        if a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), wanted_a)
        if b.grad is not None:
            np.testing.assert_allclose(b.grad.numpy(), down * v)
    assert counters.captures - before <= 8  # for each pair one, and one by which a run goes on that began with another


class Both(weft.autograd.Function):
    """Two outputs, a number among the arguments, and a gradient that is not there for a large number."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, k: float, y: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        ctx.save_for_backward(x, y)
        ctx.k = k
        return x * y, x + k

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, y = ctx.saved_tensors
        return grads[0] * y + grads[1], None, None if ctx.k > 2 else grads[0] * x


@pytest.mark.parametrize("size", [5, 1 << 15])
def test_hooks_and_functions_are_recalled(rng: Rng, size: int) -> None:
    """Random programs whose hooks come and go, of small and of large tensors: what an earlier walk says is the
    structure, and gradients are eager mode's."""
    leaves = [leaf(rng, size) for _ in range(3)]

    def program(choices: list[int], factor: float, told: list[int]) -> weft.Tensor:
        x, y, z = leaves
        for i, choice in enumerate(choices):
            if choice == 0:
                x, y = Both.apply(x, factor, y)
            elif choice == 1:
                x, y = (x * factor).sin(), y + x
            elif choice == 2:
                x, y = weft.stack([x, y * factor]).unbind()
            else:
                x, z = x * z, z.exp() * factor
            if choice < 3:
                y.register_hook(lambda g, i=i: (told.append(i), g if g is None else g * 2)[1])
            if choice == 1 and factor > 1.5:
                x.register_hook(lambda g, i=i: told.append(-i))
                x.register_hook(lambda g, i=i: (told.append(i), g if g is None else g + 1)[1])
        return (x + y).sum()

    drawn = [(list(map(int, rng.integers(0, 4, 5))), leaves[: int(rng.integers(1, 4))]) for _ in range(2)]
    with compared() as recalled:
        for _ in range(24):
            (choices, wanted), factor = drawn[int(rng.integers(2))], float(rng.choice([0.5, 1.75, 2.5]))
            outcomes = []
            for compiled in (False, True):
                told: list[int] = []
                loss = program(choices, factor, told)
                with ca.enable() if compiled else ca.disable():
                    grads = weft.autograd.grad(loss, wanted, allow_unused=True)
                outcomes.append((told, [np.zeros(size) if g is None else g.numpy() for g in grads]))
            assert outcomes[0][0] == outcomes[1][0]
            for a, b in zip(outcomes[0][1], outcomes[1][1], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    assert recalled
