"""Compiled forwards in captured backwards: their backward is copied into the graph, at every order, as eager has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.ir
from weft import compiled_autograd as ca
from weft.autograd import gradgradcheck
from weft.ir.printer import name_values, print_graph
from weft.support.counters import counters

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def calls_of_python() -> list[str]:
    """Which calls of Python the graph captured last has, but for leaves."""
    nodes = ca.last_graph().graph.nodes
    return [n.op.base for n in nodes if n.op.effect == "python" and n.op.base != "accumulate"]


def check(found: Any, expected: Any) -> None:
    for f, e in zip(found, expected, strict=True):
        assert (f is None) == (e is None)
        if e is not None:
            assert f.dtype is e.dtype
            np.testing.assert_allclose(f.detach().numpy(), e.detach().numpy(), rtol=1e-9, atol=1e-11)


def test_several_uses_at_several_sizes_are_one_program(rng: Rng) -> None:
    def f(a: weft.Tensor, b: weft.Tensor) -> Any:
        return (a @ b).tanh() + weft.tensor([[0.5]], dtype=weft.float64) * a.sum(), (a * a).reshape(-1)

    def loss(f: Any, a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
        x, y = f(a, b)
        return f(x, b)[0].sum() * y.mean() + f(x[:2] * 2, b)[0].exp().sum()

    compiled = weft.compile(f)
    ca.reset()
    for i, n in enumerate((3, 5, 2, int(rng.integers(6, 20)))):
        a, b = leaf(rng, n, 4), leaf(rng, 4, 4)
        expected = weft.autograd.grad(loss(f, a, b), (a, b))
        out = loss(compiled, a, b)
        before = counters.captures, counters.native_calls, counters.llvm_compiles
        with ca.enable():
            check(weft.autograd.grad(out, (a, b)), expected)
        done = (counters.captures - before[0], counters.native_calls - before[1])
        assert done == (1 if i == 0 else 0, 1) and calls_of_python() == []
        assert i < 1 or counters.llvm_compiles == before[2]
    graph = ca.last_graph().graph
    names = [name for v, name in name_values(graph).items() if v.node is not None]
    assert len(set(names)) == len(names)
    copies = {m.group() for name in names if (m := re.match(r"aot\d_([12]_)?(?=tangent)", name))}
    assert copies == {"aot0_", "aot0_1_", "aot1_"}  # twice without a gradient for the second result
    assert sum(n.op.name == "autograd::program_prologue" for n in graph.nodes) == 3
    constants = [n for n in graph.nodes if n.op.name == "prim::constant"]
    assert len({repr(n.args) for n in constants}) == len(constants)


def test_the_graph_is_text_and_runs_by_itself(rng: Rng, tmp_path: Path) -> None:
    n = int(rng.integers(2, 6))
    compiled = weft.compile(lambda a: weft.cat((a.reshape(-1), a.reshape(-1)[1:])).exp().reshape(-1, 1).expand(-1, 3))
    a = leaf(rng, n, 4)
    taken: list[Any] = []

    def keeping(graph: ca.CapturedGraph) -> Any:
        program = ca.interpret(graph)
        return lambda inputs: (taken.append(list(inputs)), program(inputs))[1]

    expected = weft.autograd.grad(compiled(a).sum(), a)
    out = compiled(a).sum()
    with ca.enable(keeping), ca.trap_metadata():
        check(weft.autograd.grad(out, a), expected)
    graph = ca.last_graph()
    graph.save(tmp_path / "g.txt")
    loaded = weft.ir.load(tmp_path / "g.txt")
    assert print_graph(loaded) == str(graph) and "aot0_" in str(graph) and "size_of" in str(graph)
    for program in (ca.interpret(loaded), weft.compile(graph)):
        with weft.no_grad():
            check(program(list(taken[0])), expected)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "products": lambda a, b: ((a @ b).tanh() * a.sum()).sum(0),
    "unused results": lambda a, b: ((a @ b).exp(), a.argmax(), (a * a).mean(1), None, 3),
    "views": lambda a, b: a.t()[1:].reshape(-1).softmax(0) * b.abs().sum(),
    "a write": lambda a, b: (a * 1.0).mul_(b.sum()).sin(),
    "aliases": lambda a, b: (lambda y: (y, y.t(), y[0], a))((a @ b).sin()),
    "one input": lambda a, b: a.cos(),
    "composed sizes": lambda a, b: weft.cat((a, a[1:]), 0).cumsum(0) * a.numel() + b.sum(),
}


@pytest.mark.parametrize("mode", [None, ca.interpret], ids=["native", "interpret"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_orders_1_and_2_are_those_of_eager_mode(rng: Rng, name: str, mode: Any) -> None:
    f, n, m, k = FUNCTIONS[name], *(int(v) for v in rng.integers(2, 5, 3))
    a, b = leaf(rng, n, m), leaf(rng, m, k)
    compiled = weft.compile(f)

    def gradients(f: Any) -> list[Any]:
        outs = [o for o in weft.support.pytree.flatten(f(a * 1, b))[0] if isinstance(o, weft.Tensor)]
        loss = sum((o * o).sum() for o in outs if o.is_floating_point())
        first = weft.autograd.grad(loss, (a, b), create_graph=True, allow_unused=True)
        again = sum(g.sin().sum() for g in first if g is not None)
        second = weft.autograd.grad(again, (a, b), allow_unused=True, retain_graph=True)
        only = weft.autograd.grad((outs[0] * 2).sum(), a, allow_unused=True)
        return [*first, *second, *only]

    expected = gradients(f)
    with ca.enable(mode):
        check(gradients(compiled), expected)
    assert calls_of_python() == []


@pytest.mark.parametrize("name", ["products", "views", "a write"])
def test_against_differences(rng: Rng, name: str) -> None:
    n, m, k = (int(v) for v in rng.integers(2, 4, 3))
    with ca.enable():
        assert gradgradcheck(weft.compile(FUNCTIONS[name]), (leaf(rng, n, m), leaf(rng, m, k)), fast_mode=True)


def test_t_ca_9_every_order_of_an_eager_program_is_compiled(rng: Rng) -> None:
    """One capture for each order, one native call for each run, at every size; no operator runs by itself."""
    def orders(x: weft.Tensor, w: weft.Tensor) -> list[weft.Tensor]:
        (first,) = weft.autograd.grad(((x @ w).tanh() ** 3).sum(), x, create_graph=True)
        (second,) = weft.autograd.grad(first.square().sum(), x, create_graph=True)
        return [first, second, *weft.autograd.grad(second.exp().sum(), (x, w))]

    ca.reset()
    for i, (n, m) in enumerate(((2, 3), (4, 1), (1, 1), tuple(int(v) for v in rng.integers(2, 9, 2)))):
        x, w = leaf(rng, n, m), leaf(rng, m, 2)
        expected = orders(x, w)
        before = counters.captures, counters.native_calls
        with ca.enable():
            check(orders(x, w), expected)
        assert (counters.captures - before[0], counters.native_calls - before[1]) == (3 if i == 0 else 0, 3)
        assert calls_of_python() == []


def test_numbers_in_formulas_are_inputs_at_every_order(rng: Rng) -> None:
    """Whichever side of an operator they stand on."""
    a, b, c = (weft.from_numpy(rng.uniform(0.5, 2, 3)).requires_grad_() for _ in range(3))
    ca.reset()
    for i in range(3):
        value = float(rng.uniform(0.5, 2))

        def orders(value: float = value) -> Any:
            out = weft.addcdiv(a, b, c, value=value).sin() + a**value
            first = weft.autograd.grad(out.sum(), (a, b, c), create_graph=True)
            return *first, *weft.autograd.grad(sum((g * g).sum() for g in first), (a, b, c))

        expected, before = orders(), counters.captures
        with ca.enable():
            check(orders(), expected)
        assert counters.captures - before == (2 if i == 0 else 0)


def test_a_gradient_penalty(rng: Rng) -> None:
    """backward(create_graph=True) and a penalty's backward into parameters, eager model and compiled model."""
    model = weft.nn.Sequential(weft.nn.Linear(3, 8), weft.nn.Tanh(), weft.nn.Linear(8, 1)).double()

    def penalty(net: Any, x: weft.Tensor) -> list[Any]:
        model.zero_grad()
        (slope,) = weft.autograd.grad(net(x).sum(), x, create_graph=True)
        ((slope.square().sum(1).sqrt() - 1) ** 2).mean().backward()
        return [None if p.grad is None else p.grad.clone() for p in model.parameters()]

    x = leaf(rng, int(rng.integers(2, 9)), 3)
    expected = penalty(model, x)
    with ca.enable():
        check(penalty(model, x), expected)
        check(penalty(weft.compile(model), x), expected)


def test_buffers_and_inputs_that_are_written(rng: Rng) -> None:
    scale = rng.standard_normal(3)

    def run(wrap: Any) -> list[Any]:
        norm = weft.nn.BatchNorm1d(3, dtype=weft.float64)
        counted = weft.zeros(3, dtype=weft.float64)

        def f(x: weft.Tensor, into: weft.Tensor) -> Any:
            y = norm(x).tanh()
            counted.add_(y.detach().sum(0))
            into.mul_(2)
            return y * into, counted * 1

        g, x = wrap(f), weft.from_numpy(rng_x.copy()).requires_grad_()
        into = [weft.from_numpy(scale.copy()) for _ in range(2)]
        a, b = g(x, into[0])[0], g(x * 2, into[1])[0]
        (a.sum() * b.exp().sum()).backward()
        return [x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, counted, *into]

    rng_x = rng.standard_normal((5, 3))
    expected = run(lambda f: f)
    with ca.enable():
        check(run(weft.compile), expected)
    assert calls_of_python() == []


def test_what_was_written_since_is_refused(rng: Rng) -> None:
    x, b = leaf(rng, 3), leaf(rng, 3)
    compiled = weft.compile(lambda x: (x * b).sin())
    for create_graph in (False, True):
        out = compiled(x).sum()
        with weft.no_grad():
            b.add_(1)
        with ca.enable(), pytest.raises(RuntimeError, match="modified by an inplace operation"):
            weft.autograd.grad(out, x, create_graph=create_graph)


def test_graphs_are_freed_and_kept_as_in_eager_mode(rng: Rng) -> None:
    x = leaf(rng, 4)

    def log(f: Any) -> list[Any]:
        seen: list[Any] = []
        for keep in ((True, False, False), (False, False)):
            x.grad = None
            a, b = f(x)
            for i, k in enumerate(keep):
                try:
                    (a, b)[i % 2].sum().backward(retain_graph=k)
                    seen.append(x.grad.numpy().copy().tolist())
                except RuntimeError as error:
                    seen.append(str(error)[:40])
        return seen

    def f(x: weft.Tensor) -> Any:
        return (x * x).unbind(0)[:2]

    expected = log(f)
    with ca.enable():
        assert log(weft.compile(f)) == expected


class Gives(weft.autograd.Function):
    """Gives a gradient, or none, as a list beside it says: the graph of the other case goes on where it stands."""

    gives: list[bool] = []  # noqa: RUF012  what the test sets

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        return g * 3 if Gives.gives[0] else None


def test_calls_of_python_around_inlined_programs(rng: Rng) -> None:
    """Hooks and Functions before and after an inlined program, with gradients that are there or not."""
    f = weft.compile(lambda a: (a.sin() * a).cumsum(0))
    seen: list[Any] = []

    def loss(x: weft.Tensor, f: Any) -> weft.Tensor:
        y = f(x)
        y.register_hook(lambda g: g * 2)
        x.register_hook(lambda g: seen.append(g.detach().numpy().copy()))
        return f(Gives.apply(y)).sum() + f(y * 2).sum()

    for gives in (True, False, True, False):
        Gives.gives[:] = [gives]
        x = leaf(rng, int(rng.integers(2, 7)))
        loss(x, f.function).backward()
        expected = x.grad
        x.grad = None
        with ca.enable():
            loss(x, f).backward()
        check([x.grad], [expected])
        np.testing.assert_allclose(seen[-1], expected.numpy())
        seen.clear()


def test_random_numbers_are_drawn_again_as_they_were(rng: Rng) -> None:
    drop = weft.nn.Dropout(0.5)
    f = weft.compile(lambda x: drop(x.sin()) * x)
    ca.reset()
    before = counters.captures
    for _ in range(3):
        x = leaf(rng, int(rng.integers(20, 50)))
        y = f(x)
        mask = (y / (x.sin() * x)).detach().round()
        expected = weft.autograd.grad((x.sin() * mask * x).sum(), x)
        with ca.enable():
            check(weft.autograd.grad(y.sum(), x), expected)
    assert counters.captures - before <= 2 and calls_of_python() == []  # of f and of its backward


def branch_then_loop(x: weft.Tensor, w: weft.Tensor) -> Any:
    """A branch on values, and a loop whose number of steps hangs on values."""
    y = weft.cond(x.sum() > 0, lambda: x * w, lambda: (x + w) * 0.5)
    steps, z = weft.while_loop(
        lambda i, c: (i < 3) & (c.abs().sum() < 9.0), lambda i, c: (i + 1, c * 1.5 + y.cos()), (weft.tensor(0), y)
    )
    return z.tanh(), steps


def branch_in_loop(x: weft.Tensor, w: weft.Tensor) -> Any:
    def step(i: weft.Tensor, c: weft.Tensor) -> Any:
        return i + 1, weft.cond(c.sum() > 0, lambda: (c * w).tanh() - 1, lambda: c * w.sin())

    return weft.while_loop(lambda i, c: i < 2, step, (weft.tensor(0), x))[1], None


@pytest.mark.parametrize(("f", "mode"), [(branch_then_loop, None), (branch_in_loop, ca.interpret)])
def test_branches_and_loops_are_copied(rng: Rng, f: Any, mode: Any) -> None:
    """Two uses in one loss, at two orders, either branch taken, from no step of the loop to several; one capture."""
    compiled, n = weft.compile(f), int(rng.integers(2, 5))
    ca.reset()
    for i, scale in enumerate((1.0, -1.0, 30.0)):
        x, w = weft.from_numpy(scale * rng.uniform(0.1, 1, n + i)).requires_grad_(), leaf(rng, n + i)

        def orders(f: Any, x: weft.Tensor = x, w: weft.Tensor = w) -> list[weft.Tensor]:
            out = (f(x, w)[0] * f(x.sin(), w)[0]).sum()
            first = weft.autograd.grad(out, (x, w), create_graph=True)
            return [*first, *weft.autograd.grad(sum(g.sin().sum() for g in first), (x, w))]

        expected, before = orders(f), len(ca.miss_log())
        with ca.enable(mode):
            check(orders(compiled), expected)
        assert calls_of_python() == []
        assert mode is ca.interpret or len(ca.miss_log()) - before == (2 if i == 0 else 0)


def test_copied_blocks_are_native_text_and_of_their_own_names(rng: Rng, tmp_path: Path) -> None:
    compiled = weft.compile(branch_in_loop)
    taken: list[Any] = []

    def keeping(graph: ca.CapturedGraph) -> Any:
        program = ca.interpret(graph)
        return lambda inputs: (taken.append(list(inputs)), program(inputs))[1]

    for mode in (keeping, None):
        x, w = leaf(rng, 3, 3), leaf(rng, 3, 3)
        expected = weft.autograd.grad(branch_in_loop(x, w)[0].sum() + branch_in_loop(x * 2, w)[0].sum(), (x, w))
        out = compiled(x, w)[0].sum() + compiled(x * 2, w)[0].sum()
        before = counters.native_calls, counters.foreign_segments
        with ca.enable(mode), ca.trap_metadata():
            check(weft.autograd.grad(out, (x, w)), expected)
    assert (counters.native_calls - before[0], counters.foreign_segments - before[1]) == (1, 0)
    graph = ca.last_graph()
    names = [name for v, name in name_values(graph.graph).items() if v.name]
    assert len(set(names)) == len(names) and sum(n.op.name == "prim::Loop" for n in graph.graph.nodes) == 2
    graph.save(tmp_path / "g.txt")
    loaded = weft.ir.load(tmp_path / "g.txt")
    assert print_graph(loaded) == str(graph)
    check(ca.interpret(loaded)(list(taken[0])), weft.compile(graph)(list(taken[0])))


def test_a_loop_that_makes_no_step(rng: Rng) -> None:
    """Stacked rows of no step have the shape that a step would give."""
    def f(x: weft.Tensor, w: weft.Tensor) -> Any:
        return weft.while_loop(lambda c: c.abs().sum() < 1.0, lambda c: c * w * 2, (x,))[0]

    compiled = weft.compile(f)
    for scale in (10.0, 0.01):
        x, w = weft.from_numpy(scale * rng.uniform(0.5, 1, (2, 3))).requires_grad_(), leaf(rng, 3)
        for mode in (None, ca.interpret):
            expected = weft.autograd.grad(f(x, w).sin().sum(), (x, w), allow_unused=True)
            with ca.enable(mode):
                found = weft.autograd.grad(compiled(x, w).sin().sum(), (x, w), create_graph=True, allow_unused=True)
                again = weft.autograd.grad(sum(g.sum() for g in found), x)
            for g, e in zip(found, expected, strict=True):
                np.testing.assert_allclose(g.detach().numpy(), 0 if e is None else e.numpy(), rtol=1e-9)
            assert again[0].shape == x.shape
