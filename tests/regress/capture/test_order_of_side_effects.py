"""Operators with effects run in the program's order, whatever flows between them: they were grouped by data alone,
and came out swapped."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests.noted import noted, noted_operators

BACKENDS = ("interpret", "numpy", "llvm")
LOG: list[str] = []


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    LOG.clear()


@pytest.fixture(autouse=True, scope="module")
def _operators() -> Iterator[None]:
    with noted_operators(LOG):
        yield


def run(function: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """Result and log of one call; no result where an index is out of bounds."""
    LOG.clear()
    try:
        return [t.tolist() for t in function(*args)], list(LOG)
    except IndexError:
        return None, list(LOG)


def check(function: Callable[..., Any], *args: Any) -> list[str]:
    """The log of a call, the same eagerly and compiled, on every back end, in every call."""
    expected = run(function, *args)
    for backend in BACKENDS:
        compiled = weft.compile(function, backend=backend)
        for _ in range(2):
            assert run(compiled, *args) == expected, backend
    return expected[1]


X, Y = weft.arange(6.0).view(2, 3), weft.arange(6.0).view(2, 3) * 0.5


def test_a_reader_of_both_does_not_put_the_first_off() -> None:
    def f(x: Any, y: Any) -> Any:
        shared = x * 2
        first = noted.io(shared, "first")
        second = noted.io(y, "second")
        return first, second, second + shared

    assert check(f, X, Y) == ["first", "second"]


def test_results_that_nobody_reads() -> None:
    def f(x: Any, y: Any) -> Any:
        noted.io(x.exp().sum(), "a")
        z = x * y
        noted.python(z, "b")
        noted.io(y, "a")
        noted.io(y, "a")  # the same again is not the same
        return (z + y,)

    assert check(f, X, Y) == ["a", "b", "a", "a"]


@pytest.mark.parametrize("place", [1, 7])
def test_checks_stay_between_them(place: int) -> None:
    """What a failed check would have prevented does not happen before it; what came before it has happened."""

    def f(x: Any, index: Any) -> Any:
        a = x * 2
        first = noted.io(a, "before")
        picked = x[index]
        second = noted.io(x, "after")
        return first, picked + 1, second + a

    assert check(f, X, weft.tensor([place])) == (["before", "after"] if place == 1 else ["before"])


def test_within_control_flow() -> None:
    def f(x: Any, n: Any) -> Any:
        noted.io(x, "start")
        y = weft.while_loop(
            lambda i, v: i < n, lambda i, v: (i + 1, noted.io(noted.io(v, "one") * 2, "two")), (weft.tensor(0), x)
        )[1]
        noted.io(x, "between")
        z = weft.cond(x.sum() > 0, lambda: noted.io(x + 1, "yes"), lambda: noted.io(x - 1, "no"))
        noted.io(x, "end")
        return y, z

    assert check(f, X, weft.tensor(2)) == ["start", "one", "two", "one", "two", "between", "yes", "end"]


def test_a_backward_inside_and_after() -> None:
    def inside(x: Any) -> Any:
        w = x.detach().requires_grad_()
        loss = (noted.io(w, "w") * noted.io(w * 2, "2w")).sum()
        noted.io(x, "forward done")
        (g,) = weft.autograd.grad(loss, [w])
        noted.io(x, "backward done")
        return (g,)

    log = check(inside, X)
    assert (
        log[:3] == ["w", "2w", "forward done"] and log[-1] == "backward done"
        and sorted(log[3:-1]) == ["2w back", "w back"]
    )


def test_a_gradient_that_nobody_reads() -> None:
    def f(x: Any) -> Any:
        w = x.detach().requires_grad_()
        weft.autograd.grad(noted.io(w, "w").exp().sum(), [w])
        return (x + 1,)

    assert check(f, X) == ["w", "w back"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_backward_of_a_compiled_forward(backend: str) -> None:
    def f(w: Any) -> Any:
        v = noted.io(w * 3, "forward")
        v.register_hook(lambda g: noted.io(weft.ones(2), "a hook that reads nothing of it").sum() * 0 + g)
        return v.exp().sum()

    logs: list[list[str]] = []
    for function in (f, weft.compile(f, backend=backend)):
        LOG.clear()
        loss = function(weft.ones(3, requires_grad=True))
        LOG.append("returned")
        loss.backward()
        logs.append(list(LOG))
    assert logs[0] == logs[1]
    assert logs[0][:2] == ["forward", "returned"]


STEPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b, _: a + b, "mul": lambda a, b, _: a * b, "tanh": lambda a, b, _: a.tanh(),
    "scale": lambda a, b, _: a * 0.5 + 1, "sum": lambda a, b, _: a * 0.25 + b.sum(0),
    "mm": lambda a, b, _: (a @ b) * 0.1, "row": lambda a, b, _: a[(b[0, :1] * 0).long()] + b,
    "io": lambda a, b, i: noted.io(a, f"io {i}"), "python": lambda a, b, i: noted.python(a, f"python {i}"),
}


def drawn(seed: int) -> Callable[..., Any]:
    """A program of pointwise operators, sums, products, rows by index and notes over what it has made so far."""
    rng = random.Random(seed)
    steps = [(rng.choice([*STEPS, "io", "io"]), rng.randrange(i + 2), rng.randrange(i + 2)) for i in range(30)]

    def program(*args: Any) -> Any:
        made = list(args)
        for i, (kind, a, b) in enumerate(steps):
            made.append(STEPS[kind](made[a], made[b], i))
        return made[-1], made[-2], made[len(made) // 2]

    return program


@pytest.mark.parametrize("number", range(6))
def test_random_programs(number: int) -> None:
    seed = random.getrandbits(30)
    args = [weft.tensor(np.random.default_rng(seed).standard_normal((3, 3)).astype(np.float32)) for _ in range(2)]
    _, expected = run(drawn(seed), *args)
    with weft.knobs(check=1):
        compiled = weft.compile(drawn(seed), backend="llvm")
        for _ in range(2):
            assert run(compiled, *args)[1] == expected, seed
