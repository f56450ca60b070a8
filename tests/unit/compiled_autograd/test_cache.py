"""When backward calls share a captured graph, and when they must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.compiled_autograd.cache import cache
from weft.support.counters import counters

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    ca.reset()


def test_one_capture_for_every_batch(rng: Rng) -> None:
    model = weft.nn.Sequential(weft.nn.Linear(4, 5), weft.nn.Tanh(), weft.nn.Linear(5, 2))
    before = counters.captures
    for batch in (*range(10, 100, 30), 1, 0, 7):
        x = weft.randn(batch, 4)
        model.zero_grad()
        model(x).square().sum().backward()
        expected = [p.grad.numpy().copy() for p in model.parameters()]
        model.zero_grad()
        with ca.enable():
            model(x).square().sum().backward()
        for p, e in zip(model.parameters(), expected, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), e, rtol=1e-5, atol=1e-6)
    assert counters.captures - before == 1


def test_numbers_are_inputs(rng: Rng) -> None:
    x = leaf(rng, 3)
    before, compiled = counters.captures, None
    for k in (2.0, 3.0, 4.0, 5.0, 1.0, *(float(v) for v in rng.uniform(1, 9, 2).round())):
        x.grad = None
        with ca.enable():
            (x**k).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), k * x.detach().numpy() ** (k - 1))
        compiled = counters.llvm_compiles if compiled is None else compiled
    assert counters.captures - before == 1 and counters.llvm_compiles == compiled


def test_gradients_that_are_there_already_change_nothing(rng: Rng) -> None:
    x = leaf(rng, 4)
    before = counters.captures
    held = None
    for i in range(10):
        with ca.enable():
            (x * x).sum().backward()
        held = x.grad if held is None else held
        assert x.grad is held  # added to in place, as eager does
        np.testing.assert_allclose(x.grad.numpy(), 2 * (i + 1) * x.detach().numpy())
    assert counters.captures - before == 1


def test_closures_of_hooks_are_inputs(rng: Rng) -> None:
    before = counters.captures
    for factor in rng.standard_normal(4):
        x = leaf(rng, 3)
        y = x * 1.0
        y.register_hook(lambda g, factor=factor: g * float(factor))
        with ca.enable():
            (y * y).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() * factor)
    assert counters.captures - before == 1


def test_classes_made_in_a_loop_share(rng: Rng) -> None:
    before = counters.captures
    for factor in (2.0, 3.0, 5.0):

        class Scale(weft.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
                return x * factor  # noqa: B023  called within the loop

            @staticmethod
            def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
                return g * factor  # noqa: B023  idem

        x = leaf(rng, 3)
        with ca.enable():
            Scale.apply(x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(3, factor))
    assert counters.captures - before == 1


def test_structures_do_not_share(rng: Rng) -> None:
    """Edges, slots, wanted gradients, dtypes of edges and hooks are structure."""
    x, y = leaf(rng, 2, 2), leaf(rng, 2, 2)
    steps: list[Any] = [
        lambda: (x - y).sum(), lambda: (y - x).sum(), lambda: (x * y).sum(), lambda: (x * y.detach()).sum(),
        lambda: (x @ y).sum(), lambda: x.sum(0, keepdim=True).sum(), lambda: (x.float() * 2).sum(),
    ]
    for step in steps:
        for p in (x, y):
            p.grad = None
        step().backward()
        expected = [None if p.grad is None else p.grad.numpy().copy() for p in (x, y)]
        for p in (x, y):
            p.grad = None
        with ca.enable():
            step().backward()
        for p, e in zip((x, y), expected, strict=True):
            assert (p.grad is None) == (e is None)
            if e is not None:
                np.testing.assert_allclose(p.grad.numpy(), e)


def test_the_cache_is_bounded(rng: Rng) -> None:
    x = leaf(rng, 2)
    with ca.enable(ca.interpret):
        for n in range(2000):
            weft.ones(n % 37, 1, requires_grad=True, dtype=weft.float64).mul(x).sum().backward()
    assert len(cache) == 1


def test_long_graphs_are_captured_and_run_call_by_call(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.compiled_autograd.specialize.LONGEST", 30)
    for _ in range(3):
        x = leaf(rng, int(rng.integers(1, 5)))
        y, expected = x, np.ones(x.shape)
        for _ in range(40):
            expected = expected * np.cos(y.detach().numpy())
            y = y.sin()
        before = counters.native_calls
        with ca.enable():
            y.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-9)
        assert counters.native_calls == before and len(cache) == len(ca.miss_log()) == 1


def test_many_long_graphs_push_each_other_out(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.compiled_autograd.cache.MOST_NODES", 60)
    for n in range(1, 12):
        y = leaf(rng, 2)
        for _ in range(n):
            y = y.sin()
        with ca.enable(ca.interpret):
            y.sum().backward()
    assert 1 <= len(cache) < 5 and len(ca.miss_log()) == 11


def test_a_miss_says_where(rng: Rng) -> None:
    x = leaf(rng, 2)
    with ca.enable():
        x.sin().sum().backward()
        x.cos().sum().backward()
    first, second = ca.miss_log()
    assert "test_cache.py" in first and "CosBackward0" in second


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_never_get_a_wrong_program(rng: Rng, seed: int) -> None:
    """Small graphs that differ in an operator, an edge, a constant or a size, against the engine's own walk."""
    tensors = [leaf(rng, 3, 3) for _ in range(3)]
    unary = [
        weft.sin, weft.exp, lambda t: t * float(rng.integers(1, 4)), lambda t: t.t(),
        lambda t: t.sum(int(rng.integers(0, 2)), keepdim=True), lambda t: t[1:],
    ]
    values: list[weft.Tensor] = list(tensors)
    for _ in range(int(rng.integers(2, 7))):
        a = values[int(rng.integers(len(values)))]
        if rng.random() < 0.5:
            values.append(unary[int(rng.integers(len(unary)))](a))
        else:
            b = values[int(rng.integers(len(values)))]
            values.append(a * b if _broadcast(a, b) else a)
    loss = sum((v * 0.1).sum() for v in values[3:]) + tensors[0].sum()
    expected = weft.autograd.grad(loss, tensors, retain_graph=True, allow_unused=True)
    with ca.enable():
        found = weft.autograd.grad(loss, tensors, allow_unused=True)
    for e, f in zip(expected, found, strict=True):
        assert (e is None) == (f is None)
        if e is not None:
            np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-10)


def _broadcast(a: weft.Tensor, b: weft.Tensor) -> bool:
    try:
        np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        return False
    return True


def test_integers_that_change(rng: Rng) -> None:
    """Some become symbols, others (which dim, which row is padding) are taken as they are: one capture either way."""
    before = counters.captures
    for padding in (1, 3, 0):
        table = leaf(rng, 5, 2)
        index = weft.tensor([[0, 1], [3, 3]])
        with ca.enable():
            weft.nn.functional.embedding(index, table, padding_idx=padding).sum().backward()
        expected = np.zeros((5, 2))
        np.add.at(expected, [i for i in (0, 1, 3, 3) if i != padding], 1.0)
        np.testing.assert_array_equal(table.grad.numpy(), expected)
    for start in (0, 1, 4):
        x = leaf(rng, 7)
        with ca.enable():
            x.narrow(0, start, 2).sin().sum().backward()
        expected = np.where((np.arange(7) >= start) & (np.arange(7) < start + 2), np.cos(x.detach().numpy()), 0)
        np.testing.assert_allclose(x.grad.numpy(), expected)
    for factor in (2, 3):
        x = leaf(rng, 1, 1, 6, 6)
        with ca.enable():
            weft.nn.functional.pixel_unshuffle(x, factor).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.ones((1, 1, 6, 6)))
    for dim in (0, 1, -1):
        x = leaf(rng, 2, 3)
        with ca.enable():
            x.cumsum(dim).sum().backward()
        count = np.arange(x.shape[dim], 0, -1.0)
        np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(count[:, None] if dim == 0 else count, (2, 3)))
    assert counters.captures - before == 4


def test_numbers_that_decide_what_is_computed(rng: Rng) -> None:
    x = weft.tensor([1.0, -1.0, 0.5], requires_grad=True)
    for p in (2.5, 3.5, float("inf"), 0.0, -float("inf"), 1.5):
        expected = weft.autograd.grad(weft.linalg.vector_norm(x, p), x)[0]
        with ca.enable():
            found = weft.autograd.grad(weft.linalg.vector_norm(x, p), x)[0]
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_counters_say_who_walked(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward call under enable() runs by a captured graph or is counted as one that the engine walked."""

    def step() -> tuple[int, int]:
        before = counters.compiled_backwards, counters.walked_backwards
        (leaf(rng, 3) * 2).sum().backward()
        return counters.compiled_backwards - before[0], counters.walked_backwards - before[1]

    assert step() == (0, 0)
    with ca.enable():
        assert step() == (1, 0)
        with ca.disable():
            assert step() == (0, 0)

        def refuse(structure: Any) -> Any:
            raise TypeError("a saved value that has no hash")

        monkeypatch.setattr("weft.compiled_autograd.structure.Key", refuse)
        assert step() == (0, 1)
