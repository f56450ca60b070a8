"""Arguments, state and results that share memory: compiled functions treat them as eager does, at every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn

BACKENDS = ["interpret", "llvm"]


def values(n: int, seed: int) -> Any:
    return weft.tensor(np.random.default_rng(seed).standard_normal(n))


def write_both(x: Any, y: Any) -> Any:
    x.mul_(2)
    y.add_(1)
    return x * 1


def write_transposed(x: Any, y: Any) -> Any:
    x.mul_(2)
    y.add_(1)
    return x.t() * y


PAIRS: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "same object": lambda i: (lambda x: (x, x))(values(6, i)),
    "view": lambda i: (lambda x: (x, x.view(-1)))(values(6, i).view(2, 3)),
    "overlap": lambda i: (lambda x: (x[:4], x[2:]))(values(6, i)),
    "transposed": lambda i: (lambda x: (x.t(), x))(values(6, i).view(2, 3)),
    "distinct": lambda i: (values(6, i), values(6, i + 50)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PAIRS)
def test_arguments_that_share_memory(name: str, backend: str) -> None:
    function = write_transposed if name == "transposed" else write_both
    compiled = weft.compile(function, backend=backend)
    weft.counters.reset()
    for i in range(3):
        ours, theirs = PAIRS[name](i), PAIRS[name](i)
        expected, found = function(*ours), compiled(*theirs)
        for a, b in zip((expected, *ours), (found, *theirs), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12)
    assert weft.counters.captures == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_sharing_patterns_do_not_share_programs(backend: str) -> None:
    compiled = weft.compile(write_both, backend=backend)
    for make in (PAIRS["distinct"], PAIRS["same object"], PAIRS["distinct"], PAIRS["overlap"]):
        ours, theirs = make(3), make(3)
        expected, found = write_both(*ours), compiled(*theirs)
        for a, b in zip((expected, *ours), (found, *theirs), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_that_the_function_also_reaches_by_name(backend: str) -> None:
    state = values(4, 0)

    def advance(x: Any) -> Any:
        state.add_(1)
        return x + state

    compiled = weft.compile(advance, backend=backend)
    start = state.numpy().copy()
    np.testing.assert_allclose(compiled(state).numpy(), 2 * (start + 1))
    np.testing.assert_allclose(compiled(state).numpy(), 2 * (start + 2))
    np.testing.assert_allclose(compiled(weft.zeros(4, dtype=weft.float64)).numpy(), start + 3)
    np.testing.assert_allclose(compiled(state).numpy(), 2 * (start + 4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_of_parameters_and_tied_weights(backend: str) -> None:
    layer = nn.Linear(3, 3).double()

    def step(x: Any) -> Any:
        with weft.no_grad():
            layer.weight.view(-1)[:3].mul_(2.0)
            layer.weight.data[1].add_(1.0)
        w = layer.weight
        return (x @ w) @ w.t() + w.view(-1)[:3]

    compiled = weft.compile(step, backend=backend)
    x = values(6, 1).view(2, 3)
    for _ in range(2):
        before = layer.weight.detach().clone()
        expected = step(x).detach()
        after = layer.weight.detach().clone()
        with weft.no_grad():
            layer.weight.copy_(before)
        found = compiled(x).detach()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
        np.testing.assert_allclose(layer.weight.detach().numpy(), after.numpy(), rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_alias_what_they_alias_in_eager(backend: str) -> None:
    state = values(6, 2)

    def look(x: Any) -> Any:
        y = x * 2
        return y, y.view(2, 3)[1], state[1:3], x, x[0], y

    compiled = weft.compile(look, backend=backend)
    for n in (6, 6):
        x = values(n, 5)
        y, row, part, same, first, again = compiled(x)
        assert same is x and again is y
        y.zero_()
        part.fill_(7.0)
        first.fill_(9.0)
        assert not row.numpy().any() and (state.numpy()[1:3] == 7.0).all() and x[0].item() == 9.0
