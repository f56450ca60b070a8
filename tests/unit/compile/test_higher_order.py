"""create_graph through the backward of a compiled forward: derivatives of any order, against eager and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck, gradgradcheck
from weft.support.counters import counters

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def test_three_orders_of_a_power(rng: Rng) -> None:
    values = rng.standard_normal(int(rng.integers(1, 9)))
    x = weft.from_numpy(values).requires_grad_()
    compiled = weft.compile(lambda x: x**5)
    (first,) = weft.autograd.grad(compiled(x).sum(), x, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = weft.autograd.grad(second.sum(), x)
    for found, expected in ((first, 5 * values**4), (second, 20 * values**3), (third, 60 * values**2)):
        np.testing.assert_allclose(found.detach().numpy(), expected)


FUNCTIONS: dict[str, Any] = {
    "products": lambda a, b: ((a @ b).tanh() * a.sum()).sum(0),
    "two results": lambda a, b: ((a @ b).exp(), (a * a).mean(1)),
    "views": lambda a, b: a.t()[1:].reshape(-1).softmax(0) * b.abs().sum(),
    "a write": lambda a, b: (a * 1.0).mul_(b.sum()).sin(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_differences(rng: Rng, name: str) -> None:
    n, m, k = (int(v) for v in rng.integers(2, 5, 3))
    compiled = weft.compile(FUNCTIONS[name])
    inputs = leaf(rng, n, m), leaf(rng, m, k)
    assert gradcheck(compiled, inputs) and gradgradcheck(compiled, inputs, fast_mode=True)
    turned = weft.from_numpy(rng.standard_normal((m, n))).t().requires_grad_(), inputs[1]  # dims in another order
    assert gradgradcheck(compiled, turned, fast_mode=True)


def test_a_gradient_penalty_of_a_model_alone(rng: Rng) -> None:
    """The model is compiled, the step is not: the penalty's gradients reach the parameters."""
    weft.manual_seed(int(rng.integers(1000)))
    model = weft.nn.Sequential(weft.nn.Linear(3, 8), weft.nn.Tanh(), weft.nn.Linear(8, 1)).double()
    x = leaf(rng, 5, 3)
    found: list[Any] = []
    for net in (model, weft.compile(model)):
        model.zero_grad()
        (slope,) = weft.autograd.grad(net(x).sum(), x, create_graph=True)
        ((slope.square().sum(1).sqrt() - 1) ** 2).mean().backward()
        found.append([None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()])
    for eager, compiled in zip(*found, strict=True):
        assert (eager is None) == (compiled is None)
        if eager is not None:
            np.testing.assert_allclose(compiled, eager, rtol=1e-9, atol=1e-12)


def test_what_was_written_since_is_refused(rng: Rng) -> None:
    x, b = leaf(rng, 3), leaf(rng, 3)
    compiled = weft.compile(lambda x: (x * x + b).sin())
    out = compiled(x)
    with weft.no_grad():
        b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        weft.autograd.grad(out.sum(), x, create_graph=True)


def test_branches_and_loops(rng: Rng) -> None:
    n = int(rng.integers(2, 6))
    factor = float(rng.uniform(0.5, 2))

    def branch(x: weft.Tensor) -> Any:
        return weft.cond(x.sum() > 0, lambda: x.sin() * x, lambda: (x * factor).cos())

    def loop(x: weft.Tensor) -> Any:
        start = (weft.tensor(0), x[:-1])
        return weft.while_loop(lambda i, c: i < n, lambda i, c: (i + 1, (c * x[1:]).sin() + c), start)[1]

    for sign in (1.0, -1.0):
        x = weft.from_numpy(sign * np.abs(rng.standard_normal(n)) - sign * 0.01).requires_grad_()
        assert gradgradcheck(weft.compile(branch), (x,), fast_mode=True)
    assert gradgradcheck(weft.compile(loop), (leaf(rng, 3),), fast_mode=True)


def test_sizes_found_while_it_runs(rng: Rng) -> None:
    compiled = weft.compile(lambda x: x[x > 0].square().sin().sum())
    for _ in range(2):
        x = leaf(rng, int(rng.integers(5, 9)))
        assert gradgradcheck(compiled, (x,), fast_mode=True)


def test_every_order_runs_natively_at_every_size(rng: Rng) -> None:
    """Orders 1 to 3 of one capture: each compiled once, whatever the sizes, and run as one program."""
    compiled = weft.compile(lambda a, b: (a @ b).tanh().square())
    count: list[int] = []
    for n, m, k in ((3, 4, 5), (1, 2, 6), (7, 1, 2), tuple(int(v) for v in rng.integers(2, 9, 3))):
        a, b = leaf(rng, n, m), leaf(rng, m, k)
        before, calls = counters.llvm_compiles, counters.native_calls
        out = compiled(a, b)
        first = weft.autograd.grad(out, (a, b), weft.ones(n, k, dtype=weft.float64), create_graph=True)
        second = weft.autograd.grad(first[0], (a, b), first[0].detach(), create_graph=True)
        third = weft.autograd.grad(second, a, [s.detach() for s in second])
        assert counters.native_calls - calls == 4
        count.append(counters.llvm_compiles - before)
        y = (a @ b).tanh().square()
        want = weft.autograd.grad(y, (a, b), weft.ones(n, k, dtype=weft.float64), create_graph=True)
        want = weft.autograd.grad(want[0], (a, b), want[0].detach(), create_graph=True)
        want = weft.autograd.grad(want, a, [s.detach() for s in want])
        np.testing.assert_allclose(third[0].numpy(), want[0].numpy(), rtol=1e-8, atol=1e-10)
    assert count[1:] == [0, 0, 0], count


def test_only_what_is_read_must_be_as_it_was(rng: Rng) -> None:
    """A buffer that gradients do not read may be written between: a model with running means called twice."""
    norm = weft.nn.BatchNorm1d(3, dtype=weft.float64)
    net = weft.compile(weft.nn.Sequential(norm, weft.nn.Tanh()))
    x, y = leaf(rng, 5, 3), leaf(rng, 4, 3)
    loss = net(x).square().sum() + net(y).square().sum()
    (g,) = weft.autograd.grad(loss, x, create_graph=True)
    found = weft.autograd.grad(g.square().sum(), x)[0].numpy()
    (g,) = weft.autograd.grad(norm(x).tanh().square().sum(), x, create_graph=True)
    np.testing.assert_allclose(found, weft.autograd.grad(g.square().sum(), x)[0].numpy(), rtol=1e-8)


def test_batches_of_gradients(rng: Rng) -> None:
    """A backward of a compiled forward under vmap: its formulas see the batch."""
    compiled = weft.compile(lambda a: (a.exp() * a).sum(0))
    a = leaf(rng, 3, int(rng.integers(2, 5)))
    out = compiled(a)
    eye = weft.eye(out.shape[0], dtype=weft.float64)
    found = weft.vmap(lambda g: weft.autograd.grad(out, a, g, retain_graph=True)[0])(eye)
    expected = [weft.autograd.grad((a.exp() * a).sum(0), a, g)[0].numpy() for g in eye]
    np.testing.assert_allclose(found.numpy(), np.stack(expected))


def test_a_part_of_a_tensors_memory_is_read(rng: Rng) -> None:
    """State that does not want a gradient, seen through a view with gaps."""
    table = weft.from_numpy(rng.standard_normal((4, 6)))[:, 1::2]
    assert gradgradcheck(weft.compile(lambda x: (x * table).sin().sum(0) * x), (leaf(rng, 4, 3),), fast_mode=True)


def _reads_a_slice(x: weft.Tensor, w: weft.Tensor, s: weft.Tensor) -> Any:
    return (lambda y: y.sin() * 2), (x[:, ::2],)


def _reads_part_of_state(x: weft.Tensor, w: weft.Tensor, s: weft.Tensor) -> Any:
    return (lambda y: y.sin() * w[1:4] * s[:3]), (x[:, 1:4],)


def _reads_a_view_alone(x: weft.Tensor, w: weft.Tensor, s: weft.Tensor) -> Any:
    part = w[1:4]
    return (lambda y: (y * part * part).sin()), (x[:, 1:4],)


def _writes_state_that_it_read(x: weft.Tensor, w: weft.Tensor, s: weft.Tensor) -> Any:
    def f(y: weft.Tensor) -> weft.Tensor:
        out = y.sin() * s.clone() * w.clone().exp()
        s.mul_(0.5)
        with weft.no_grad():
            w.mul_(0.9)
        return out * out

    return f, (x,)


def _writes_an_argument_that_it_read(x: weft.Tensor, w: weft.Tensor, s: weft.Tensor) -> Any:
    def f(y: weft.Tensor, into: weft.Tensor) -> weft.Tensor:
        out = (y * into.clone() * w).sin()
        into.mul_(2)
        return out * y

    return f, (x, (x * 1).t().detach().t())


def _writes_an_argument_with_a_history(x: weft.Tensor, w: weft.Tensor, s: weft.Tensor) -> Any:
    def f(y: weft.Tensor) -> weft.Tensor:
        out = y.clone() ** 3 * w[0]
        with weft.no_grad():
            y.mul_(0.5)
        return out

    return f, (x,)


@pytest.mark.parametrize("case", [
    _reads_a_slice, _reads_part_of_state, _reads_a_view_alone, _writes_state_that_it_read,
    _writes_an_argument_that_it_read, _writes_an_argument_with_a_history,
], ids=lambda f: f.__name__[1:])
def test_parts_of_memory_and_what_the_forward_writes(rng: Rng, case: Any) -> None:
    values = rng.standard_normal((int(rng.integers(2, 5)), 6)), rng.standard_normal(6), rng.standard_normal(6)
    found: list[list[Any]] = []
    for wrap in (lambda f: f, weft.compile):
        x, w, s = (weft.from_numpy(v.copy()) for v in values)
        x.requires_grad_(), w.requires_grad_()
        f, given = case(x, w, s)
        first = weft.autograd.grad(wrap(f)(*given).square().sum(), (x, w), create_graph=True, allow_unused=True)
        second = weft.autograd.grad(sum(g.sin().sum() for g in first if g is not None), (x, w), allow_unused=True)
        found.append([*first, *second, *given, w, s])
    for compiled, eager in zip(*reversed(found), strict=True):
        assert (compiled is None) == (eager is None)
        if eager is not None:
            np.testing.assert_allclose(compiled.detach().numpy(), eager.detach().numpy(), rtol=1e-9, atol=1e-11)


def test_memory_of_several_tensors_that_require_grad_is_refused(rng: Rng) -> None:
    w = leaf(rng, 6)
    left, right = w[:3], w[3:]
    x = leaf(rng, 3)
    out = weft.compile(lambda x: x * x * left * right)(x)
    with pytest.raises(RuntimeError, match="compile the whole step"):
        weft.autograd.grad(out.sum(), x, create_graph=True)
