"""Arguments that share memory share programs with those that do not, where nothing shows it: a loop over the windows of
a series is captured once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn

Draw = Callable[[np.random.Generator], tuple[weft.Tensor, ...]]


def series(rng: np.random.Generator, *sizes: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(sizes))


def windows(rng: np.random.Generator) -> tuple[weft.Tensor, ...]:
    s, n = series(rng, 40), int(rng.integers(3, 9))
    i, j = (int(k) for k in rng.integers(0, 30, 2))
    return s[i : i + n], s[j : j + n]


DRAWS: dict[str, Draw] = {
    "windows": windows,
    "of one series or of two": lambda rng: windows(rng) if rng.random() < 0.5 else (series(rng, 5), series(rng, 5)),
    "rows": lambda rng: tuple(series(rng, 2, int(rng.integers(2, 9))).unbind(0)),
    "all of it and a part": lambda rng: (lambda s: (s, s[int(rng.integers(8))]))(series(rng, 8, 3)),
    "a parameter and a row of it": lambda rng: (lambda p: (p, p[int(rng.integers(8))]))(PARAMETER),
    "equal ones": lambda rng: (lambda s, i: (s[i:], s[i:]))(series(rng, 12), int(rng.integers(9))),
}  # fmt: skip
PARAMETER = nn.Parameter(weft.arange(24.0, dtype=weft.float64).view(8, 3) / 7)


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
@pytest.mark.parametrize("name", DRAWS)
def test_one_program(name: str, backend: str, rng: np.random.Generator) -> None:
    f = weft.compile(lambda x, y: ((x - y) ** 2).sum() * x, backend=backend)
    weft.counters.reset()
    for _ in range(8):
        x, y = DRAWS[name](rng)
        np.testing.assert_allclose(f(x, y).detach().numpy(), (((x - y) ** 2).sum() * x).detach().numpy(), rtol=1e-12)
    assert weft.counters.captures == 1 and len(f.entries) == 1


def test_a_tensor_and_its_transpose(rng: np.random.Generator) -> None:
    f = weft.compile(lambda x, y: x @ y)
    weft.counters.reset()
    for n in rng.integers(2, 9, 6):
        x = series(rng, int(n), int(n))
        np.testing.assert_allclose(f(x, x.T).numpy(), x.numpy() @ x.numpy().T, rtol=1e-12)
    assert weft.counters.captures == 1


def test_a_model_of_a_series_is_trained_by_one_program(rng: np.random.Generator) -> None:
    s, n = series(rng, 60).float(), int(rng.integers(4, 9))
    models = [nn.Linear(n, n), nn.Linear(n, n)]
    models[1].load_state_dict(models[0].state_dict())
    losses: list[list[float]] = []
    weft.counters.reset()
    for model, wrap in zip(models, (lambda f: f, weft.compile), strict=True):
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @wrap
        def step(x: weft.Tensor, y: weft.Tensor, model: Any = model, optimizer: Any = optimizer) -> weft.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        losses.append([step(s[i : i + n], s[i + 1 : i + n + 1]).item() for i in range(20)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert weft.counters.captures == 1


def test_windows_beside_the_whole_series(rng: np.random.Generator) -> None:
    s = series(rng, 30)
    f = weft.compile(lambda x: x - s.mean())
    weft.counters.reset()
    for i in rng.integers(0, 20, 6):
        np.testing.assert_allclose(f(s[i : i + 5]).numpy(), s.numpy()[i : i + 5] - s.numpy().mean(), rtol=1e-12)
    assert weft.counters.captures == 1


def test_windows_of_what_the_function_writes(rng: np.random.Generator) -> None:
    s = series(rng, 30)
    plain = s.clone()

    def shift(x: weft.Tensor, s: weft.Tensor) -> weft.Tensor:
        s.add_(1)
        return x * 2

    f = weft.compile(lambda x: shift(x, s))
    for i in (3, 3, 4, 7):
        np.testing.assert_allclose(f(s[i : i + 5]).numpy(), shift(plain[i : i + 5], plain).numpy(), rtol=1e-12)
        np.testing.assert_allclose(f(weft.zeros(5, dtype=s.dtype)).numpy(), shift(s[:5] * 0, plain).numpy())
        np.testing.assert_array_equal(s.numpy(), plain.numpy())


def write_second(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
    y.mul_(2)
    return x * 1


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_writes_are_seen_whichever_call_came_first(backend: str, rng: np.random.Generator) -> None:
    for order in ((0, 1, 0, 1), (1, 0, 1, 0)):
        f = weft.compile(write_second, backend=backend)
        for shares in order:
            s, other = series(rng, 20), series(rng, 6)
            given = [(t[2:8], t[5:11] if shares else other.clone()) for t in (s.clone(), s.clone())]
            np.testing.assert_array_equal(f(*given[0]).numpy(), write_second(*given[1]).numpy())
            np.testing.assert_array_equal(given[0][0].numpy(), given[1][0].numpy())
            np.testing.assert_array_equal(given[0][1].numpy(), given[1][1].numpy())


ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "storage": lambda x, y: x.storage() is y.storage(),
    "untyped_storage": lambda x, y: x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr(),
    "is_set_to": lambda x, y: x.is_set_to(y),
    "_base": lambda x, y: x._base is y._base,
    "is": lambda x, y: x is y,
    "storage_offset": lambda x, y: (x.storage_offset(), y.storage_offset()),
    "as_strided": lambda x, y: y.sum() + x.as_strided((3,), (2,), 1),
    "deepcopy": lambda x, y: (lambda c: (c[0].add_(1), c[1])[1])(copy.deepcopy((x, y))),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_asks_for_it_is_told(name: str, rng: np.random.Generator) -> None:
    f = weft.compile(ASKED[name])
    s = series(rng, 20)
    for given in ((s[2:8], s[3:9]), (s[2:8], s[2:8]), (s[5:11], s[3:9]), (s[5:11],) * 2):
        found, expected = f(*given), ASKED[name](*given)
        assert np.all(np.asarray(found) == np.asarray(expected))


def test_gradients_flow_into_the_series(rng: np.random.Generator) -> None:
    f = weft.compile(lambda x, y: (x * x * y).sum())
    weft.counters.reset()
    for i, j in rng.integers(0, 15, (6, 2)):
        found = []
        for g in (f, f.function):
            s = weft.from_numpy(np.linspace(0.5, 2.0, 20)).requires_grad_()
            (first,) = weft.autograd.grad(g(s[i : i + 5], s[j : j + 5]), s, create_graph=True)
            first.square().sum().backward()
            found.append((first.detach().numpy(), s.grad.numpy()))
        np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)
    assert weft.counters.captures == 1


def test_hooks_between_parts(rng: np.random.Generator) -> None:
    """A hook that asks for a value, and writes the series."""
    s, w = series(rng, 30), weft.ones(5, dtype=weft.float64, requires_grad=True)
    plain, v = s.clone(), w.detach().requires_grad_()
    seen: list[list[float]] = [[], []]

    def step(x: weft.Tensor, y: weft.Tensor, s: weft.Tensor, w: weft.Tensor, seen: list[float]) -> weft.Tensor:
        def hook(gradient: weft.Tensor) -> None:
            seen.append(gradient.sum().item())
            with weft.no_grad():
                s.mul_(0.9)

        out = w.exp() + x
        out.register_hook(hook)
        (out.sum() * 2).backward()
        return out.detach() + y

    f = weft.compile(lambda x, y: step(x, y, s, w, seen[0]))
    weft.counters.reset()
    for i, j in rng.integers(0, 20, (5, 2)):
        found = f(s[i : i + 5], s[j : j + 5])
        expected = step(plain[i : i + 5], plain[j : j + 5], plain, v, seen[1])
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
        np.testing.assert_allclose(s.numpy(), plain.numpy(), rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy(), rtol=1e-12)
    assert seen[0] == seen[1] and len(seen[0]) == 5 and weft.counters.captures == 1


def test_leaves_over_one_memory_have_their_own_gradients(rng: np.random.Generator) -> None:
    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        loss = (x * x * y).sum()
        loss.backward()
        return loss

    f = weft.compile(step)
    weft.counters.reset()
    for i, j in rng.integers(0, 15, (5, 2)):
        s = series(rng, 20)
        pairs = [[s[k : k + 5].detach().requires_grad_() for k in (i, j)] for _ in range(2)]
        np.testing.assert_allclose(f(*pairs[0]).item(), step(*pairs[1]).item(), rtol=1e-12)
        for a, b in zip(*pairs, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)
    assert weft.counters.captures == 1


def test_returned_views_are_of_the_series(rng: np.random.Generator) -> None:
    f = weft.compile(lambda x, y: (x[1:], y.view(-1), x + y))
    weft.counters.reset()
    for i, j in rng.integers(0, 15, (5, 2)):
        s = series(rng, 20)
        expected = s.numpy().copy()
        first, second, _ = f(s[i : i + 5], s[j : j + 5])
        assert first._base is s and second._base is s
        first.fill_(7.0)
        second.mul_(2.0)
        expected[i + 1 : i + 5] = 7.0
        expected[j : j + 5] *= 2.0
        np.testing.assert_array_equal(s.numpy(), expected)
    assert weft.counters.captures == 1


def test_what_fails_apart_is_captured_together(rng: np.random.Generator) -> None:
    """Where as_strided reaches from one window into the other there is no program for each alone."""
    f = weft.compile(lambda x, y: x.as_strided((6,), (1,)) + y.sum())
    s = series(rng, 20)
    for i in (2, 2, 5):
        np.testing.assert_allclose(f(s[i : i + 3], s[i + 1 : i + 4]).numpy(), s.numpy()[:6] * 0 + s.numpy()[
            i : i + 6] + s.numpy()[i + 1 : i + 4].sum(), rtol=1e-12)
