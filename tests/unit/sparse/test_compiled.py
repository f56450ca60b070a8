"""Sparse tensors in compiled functions: as arguments, with gradients and without, as state, made inside, given back;
one program serves other numbers of values. What no program can do runs as it is written, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Maker = Callable[[Any], tuple[Callable[..., Any], Callable[[], list[Any]], Callable[[int], tuple[Any, ...]]]]


def matrix(rng: Any, n: int, m: int) -> Any:
    return weft.from_numpy(rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.6))


def listed(value: Any) -> Any:
    return value.detach().to_dense().numpy().copy() if isinstance(value, weft.Tensor) else np.asarray(value)


def results(make: Maker, seed: int, how: str, calls: int = 5) -> tuple[list[list[Any]], int]:
    """What five calls of a function give and leave behind, and how many captures there were."""
    function, watched, arguments = make(np.random.default_rng(seed))
    function = function if how == "eager" else weft.compile(function, split=how == "split")
    before, seen = weft.counters.captures, []
    for i in range(calls):
        result = function(*arguments(i))
        if isinstance(result, weft.Tensor) and result.requires_grad:
            result.backward()
        seen.append([listed(value) for value in (result, *watched())])
    return seen, weft.counters.captures - before


def same(make: Maker, rng: Any, captures: int | None = 1) -> None:
    """Compiled and split calls give what eager ones give. captures: of the compiled function; None where calls run as
    written."""
    seed = int(rng.integers(1000))
    truth, _ = results(make, seed, "eager")
    for how in ("compile", "split"):
        seen, count = results(make, seed, how)
        for i, (ours, theirs) in enumerate(zip(seen, truth, strict=True)):
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, 1e-6, 1e-7, err_msg=f"{how}, call {i}")
        assert captures is None or count == captures, how


@pytest.mark.parametrize("layout", [weft.sparse_coo, weft.sparse_csr, weft.sparse_csc])
@pytest.mark.parametrize("leaf", [True, False])
def test_arguments_that_want_gradients(layout: Any, leaf: bool, rng: Any) -> None:
    """The backward call is the caller's: gradients flow on to a sparse leaf, or to the values that made it."""

    def make(rng: Any) -> Any:
        kept: list[Any] = []

        def argument(i: int) -> Any:
            if leaf:
                kept[:] = [matrix(rng, 3 + i, 4).to_sparse(layout=layout).requires_grad_()]
                return kept[0]
            kept[:] = [weft.from_numpy(rng.standard_normal(5 + i)).requires_grad_()]
            places = weft.from_numpy(rng.integers(0, 4, (2, 5 + i)))
            return weft.sparse_coo_tensor(places, kept[0], (4, 4)).to_sparse(layout=layout)

        return (
            lambda s, d: (s @ d).sin().sum(), lambda: [t.grad for t in kept],
            lambda i: (argument(i), matrix(rng, 4, 2)),
        )

    same(make, rng)


def test_a_backward_inside_reaches_a_sparse_leaf(rng: Any) -> None:
    """It runs as it is written: the gradient has places of its own."""

    def make(rng: Any) -> Any:
        kept: list[Any] = [matrix(rng, 4, 4).to_sparse_csr().requires_grad_()]

        def step(s: Any, d: Any) -> Any:
            loss = (s @ d).sin().sum() + (kept[0] @ d).cos().sum()
            loss.backward()
            return loss.detach()

        def arguments(i: int) -> Any:
            kept[1:] = [matrix(rng, 4, 4).to_sparse().requires_grad_()]
            return kept[1], matrix(rng, 4, 2)

        return step, lambda: [t.grad for t in kept], arguments

    same(make, rng, None)


def test_made_inside_and_given_back(rng: Any) -> None:
    def make(rng: Any) -> Any:
        values: list[Any] = []

        def step(places: Any, v: Any, x: Any) -> Any:
            s = weft.sparse_coo_tensor(places, v, (4, 4))
            return weft.sparse.softmax(s * 2, 1) + x.to_sparse()

        def arguments(i: int) -> Any:
            values[:] = [weft.from_numpy(rng.standard_normal(5 + i)).requires_grad_()]
            return weft.from_numpy(rng.integers(0, 4, (2, 5 + i))), values[0], matrix(rng, 4, 4)

        def whole(*args: Any) -> Any:
            return (function(*args).to_dense() ** 2).sum()

        function = weft.compile(step)
        return whole, lambda: [v.grad for v in values], arguments

    same(make, rng, None)


def test_state_layouts_and_flags(rng: Any) -> None:
    """A sparse tensor of the function's own is state: writes in place are seen, another one is another program."""

    def make(rng: Any) -> Any:
        weight = weft.nn.Parameter(matrix(rng, 4, 2))
        held = [matrix(rng, 4, 4).to_sparse()]
        optimizer = weft.optim.SGD([weight], lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (held[0] @ (x @ weight)).tanh().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def arguments(i: int) -> Any:
            if i == 2:
                held[0].mul_(2)
            if i == 4:
                held[0] = matrix(rng, 4, 4).to_sparse_csr()
            return (matrix(rng, 4, 4),)

        return step, lambda: [weight], arguments

    same(make, rng, 2)


def test_layouts_and_coalesced_tensors_have_programs_of_their_own(rng: Any) -> None:
    product = weft.compile(lambda s, d: s @ d)
    dense, right = matrix(rng, 4, 4) + weft.eye(4), matrix(rng, 4, 2)
    twice = dense.to_sparse() + dense.to_sparse().clone()._coalesced_(False)
    for _ in range(2):
        for s in (dense.to_sparse(), twice, dense.to_sparse_csr(), dense.to_sparse(1).to_dense().to_sparse_csc()):
            np.testing.assert_allclose(product(s, right).numpy(), (s.to_dense() @ right).numpy(), 1e-9)
    assert len(product.entries) == 4


EXTRAS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda w: 0, "dense": lambda w: (w**2).sum() * 0.1,
    "looked up again": lambda w: weft.nn.functional.embedding(weft.tensor([5, 0]), w, sparse=True).cos().sum(),
}


@pytest.mark.parametrize("where", ["start", "end", "never"])
@pytest.mark.parametrize("extra", EXTRAS)
def test_gradients_that_come_together(extra: str, where: str, rng: Any) -> None:
    """`.grad` as a step leaves it, whether it is sparse or dense, forgotten before or after, or added to."""

    def make(rng: Any) -> Any:
        weight = weft.nn.Parameter(matrix(rng, 6, 2))

        def step(rows: Any) -> Any:
            if where == "start":
                weight.grad = None
            rows_of = weft.nn.functional.embedding(rows, weight, sparse=True)
            loss = rows_of.sin().pow(2).sum() + EXTRAS[extra](weight)
            loss.backward()
            total = weft.nn.utils.clip_grad_norm_([weight], 0.5)
            if where == "end":
                weight.grad = None
            return loss.detach() + total

        def gradient() -> list[Any]:
            return [0, 0] if weight.grad is None else [weight.grad, weight.grad.layout is weft.strided]

        return step, gradient, lambda i: (weft.from_numpy(rng.integers(0, 6, (3 + 2 * i,))),)

    same(make, rng, None if where == "never" else 1)


def test_a_gradient_changes_its_layout_between_calls(rng: Any) -> None:
    def make(rng: Any) -> Any:
        weight = weft.nn.Parameter(matrix(rng, 6, 2))

        def step(x: Any) -> Any:
            loss = (weight * x).sin().sum()
            loss.backward()
            return loss.detach()

        def arguments(i: int) -> Any:
            if i in (2, 4):
                weight.grad = None
            if i == 2:
                weft.nn.functional.embedding(weft.tensor([1, 1, 3]), weight, sparse=True).sum().backward()
            return (matrix(rng, 6, 2),)

        return step, lambda: [weight.grad], arguments

    same(make, rng, None)


def test_hooks_and_frozen_tables(rng: Any) -> None:
    def make(rng: Any) -> Any:
        layer, seen = weft.nn.Embedding(6, 2, sparse=True, _weight=matrix(rng, 6, 2)), [0]
        layer.weight.register_hook(lambda g: g * 2)
        optimizer = weft.optim.SparseAdam(layer.parameters(), lr=0.1)

        def step(rows: Any) -> Any:
            optimizer.zero_grad()
            loss = (layer(rows) * scale).sin().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def arguments(i: int) -> Any:
            layer.weight.requires_grad_(i != 2)
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            return (weft.from_numpy(rng.integers(0, 6, (3 + 2 * i,))),)

        scale = weft.ones((), dtype=weft.float64, requires_grad=True)
        return step, lambda: [layer.weight, *seen], arguments

    same(make, rng, None)
