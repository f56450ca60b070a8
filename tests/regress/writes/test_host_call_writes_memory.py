"""A compiled program that calls Python on its way reads behind the call what Python has written: in memory of its
state, in that which arguments show (with gaps too), in gradients, and in tensors that it gave to Python; what was
computed before the call stays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import CaptureError
from weft.support.knobs import knobs

N = random.randint(3, 6)
S = weft.arange(8.0 * N)
W = weft.ones(N, requires_grad=True)


def _is_foreign(a: Any) -> None:
    str(a.sum().item())


class Bump(weft.autograd.Function):
    """Writes the series."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        _is_foreign(a)
        with weft.no_grad():
            S.add_(1)
        return a * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class BumpGiven(weft.autograd.Function):
    """Writes what it is given."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        _is_foreign(a)
        with weft.no_grad():
            a.add_(1)
        return a * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class BumpGradient(weft.autograd.Function):
    """Writes the gradient of a parameter."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        _is_foreign(a)
        with weft.no_grad():
            W.grad.add_(1)
        return a * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def _bump(g: Any) -> None:
    _is_foreign(g)
    with weft.no_grad():
        S.add_(1)


def argument(x: Any) -> Any:
    z = Bump.apply(W * 1)
    return (x * 2 + z * 0).detach()


def argument_before_and_behind(x: Any) -> Any:
    a = x * 2
    z = Bump.apply(W * x)
    return (x * 2 - a + z).detach()


def view_of_argument(x: Any) -> Any:
    v = x[1:]
    a = v * 2
    z = Bump.apply(W * x)
    return (v * 2 - a).detach(), (v * 3).detach(), z.detach()


def expanded_view(x: Any) -> Any:
    v = x.expand(2, N)
    a = v * 2
    z = Bump.apply(W * x)
    return (v * 2 - a + z).detach()


def state(x: Any) -> Any:
    a = S * 3
    z = Bump.apply(W * x)
    return (S * 3 - a).detach(), z.detach()


def view_of_state(x: Any) -> Any:
    v = S.reshape(N, 8).t()
    a = v.sum(0)
    z = Bump.apply(Bump.apply(W * x))
    return (v.sum(0) - a + z * 0).detach()


def written_before_and_behind(x: Any) -> Any:
    v = S[1 : N + 1]
    with weft.no_grad():
        v.mul_(2)
    a = v * 1
    z = Bump.apply(W * x)
    b = v * 1
    with weft.no_grad():
        v.add_(10)
    z = Bump.apply(z)
    with weft.no_grad():
        S.div_(4)
    return (b - a).detach(), (v * 1 - b).detach(), z.detach()


def kept_from_before(x: Any) -> Any:
    a, c = S * 3, S.clone()
    z = Bump.apply(Bump.apply(W * x))
    return (c * 2 + a + S).detach(), z.detach()


def what_it_is_given(x: Any) -> Any:
    h = W * x
    v = h[1:]
    a, b, c = v * 2, h * 2, h.clone()
    z = BumpGiven.apply(h)
    return (v * 2 - a).detach(), (h * 2 - b).detach(), (c * 2).detach(), z.detach()


def what_state_has_too(x: Any) -> Any:
    h = weft.cat([W * x] * 8)
    with weft.no_grad():
        S.copy_(h)
    b = h * 1
    z = BumpGiven.apply(h)
    return (h * 1 - b).detach(), z.detach(), S * 1


def gradient(x: Any) -> Any:
    W.grad = None
    (W * x).sum().backward()
    v = W.grad[1:]
    a, b = W.grad * 2, v * 3
    z = BumpGradient.apply(BumpGradient.apply(W * x))
    return (W.grad * 2 - a).detach(), (v * 3 - b).detach(), z.detach()


def by_a_hook(x: Any) -> Any:
    W.grad = None
    v = S[:N]
    a = v * 2
    h = W * x.clone()
    h.register_hook(_bump)
    h.sum().backward()
    return v * 2 - a, a, W.grad.clone()


FUNCTIONS = (
    argument, argument_before_and_behind, view_of_argument, expanded_view, state, view_of_state, kept_from_before,
    written_before_and_behind, what_it_is_given, what_state_has_too, gradient, by_a_hook,
)
ARGUMENTS: dict[str, Callable[[int], Any]] = {
    "its own": lambda i: weft.arange(float(N)) + i,
    "a window": lambda i: S[i : i + N],
    "a window with gaps": lambda i: S[i : i + 2 * N : 2],
    "a column": lambda i: S.reshape(N, 8)[:, i],
    "one element": lambda i: S[i : i + 1].expand(N),
}


def _listed(found: Any) -> Any:
    return [t.tolist() for t in found] if isinstance(found, tuple) else found.tolist()


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("given", ARGUMENTS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_it_is_read_again_behind_the_call(function: Any, given: str, backend: str) -> None:
    found = []
    for run in (function, weft.compile(function)):
        with knobs(backend=backend), weft.no_grad():
            S.copy_(weft.arange(8.0 * N))
        W.grad = None
        with knobs(backend=backend):
            found.append([(_listed(run(ARGUMENTS[given](i))), S.tolist()) for i in range(4)])
    assert found[0] == found[1]
    assert run.entries and not run.stepwise


def test_one_program_has_windows_with_gaps_and_whatever_else_shows_their_memory() -> None:
    """The program copies such arguments, and does so again behind each call: where they lie is the call's affair."""
    step = weft.compile(lambda x, y: (x * 2 + y + Bump.apply(W * 1) * 0 + x).detach())
    with weft.no_grad():
        S.copy_(weft.arange(8.0 * N))
    for i in range(5):
        start = np.array(S.tolist())
        x = start[i : i + 2 * N : 2]
        found = step(S[i : i + 2 * N : 2], S[i + 1 : i + 1 + N])
        assert found.tolist() == (x * 2 + start[i + 1 : i + 1 + N] + x + 1).tolist()
    assert len(step.entries) == 1


def _state_view(x: Any) -> Any:
    return BumpGiven.apply(S[1:N]).detach() + x[1:], S * 2


def _argument_view(x: Any) -> Any:
    return BumpGiven.apply(x[1:]).detach(), x * 2


def _own_view(x: Any) -> Any:
    h = W * x
    return BumpGiven.apply(h[1:]).detach(), (h * 2).detach()


@pytest.mark.parametrize("function", [_state_view, _argument_view, _own_view])
def test_a_function_that_writes_a_view_that_it_is_given_runs_as_written(function: Any) -> None:
    """Within a program the view would be a copy."""
    found = []
    for run in (function, weft.compile(function)):
        with weft.no_grad():
            S.copy_(weft.arange(8.0 * N))
        found.append([(_listed(run(S[i : i + N])), S.tolist()) for i in range(4)])
    assert found[0] == found[1]
    assert run.stepwise and not run.entries


class Sometimes(weft.autograd.Function):
    """Writes what it is given, if that is large."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        if a.sum().item() > 100:
            with weft.no_grad():
                a.sub_(1)
        return a * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def test_one_that_does_so_later_stops_the_step_once() -> None:
    step = weft.compile(lambda x: (Sometimes.apply(x[1:]).detach(), x * 2))
    for _ in range(2):
        assert step(weft.ones(N))[0].tolist() == [1.0] * (N - 1)
    assert step.entries
    with pytest.raises(CaptureError, match=r"test_host_call_writes_memory.*writes a view that it is given"):
        step(weft.full((N,), 101.0))
    assert step(weft.full((N,), 101.0))[1].tolist() == [202.0] + [200.0] * (N - 1)
