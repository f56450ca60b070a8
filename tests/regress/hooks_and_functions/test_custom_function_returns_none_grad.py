"""A custom Function whose backward gives no gradient for some of its inputs costs no capture more than one that gives
them, also where what it gives changes; and leaves behind it get none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.deferred import deferred

GIVES = [(True, False), (True, True), (True, False), (False, False), (True, False), (True, True)]
WRAPS: dict[str, Callable[[Any], Any]] = {
    "compiled autograd": lambda f: f, "compiled": weft.compile, "split": deferred,
}


def functions(wrap: Callable[[Any], Any], gives: list[bool]) -> tuple[Any, Any]:
    """A whole step, and a forward alone."""

    class Some(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a * 2 + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 if gives[0] else None, g if gives[1] else None

    def forward(a: Any, b: Any) -> Any:
        return Some.apply(a.sin(), b.cos()).sum()

    def step(a: Any, b: Any) -> Any:
        forward(a, b).backward()

    return wrap(step), wrap(forward)


@pytest.mark.parametrize("mode", WRAPS)
def test_captures_and_gradients(mode: str) -> None:
    gives = [True, True]
    step, forward = functions(WRAPS[mode], gives)
    block = weft.compiled_autograd.enable if mode == "compiled autograd" else contextlib.nullcontext
    weft.compiled_autograd.reset()
    seen: set[tuple[bool, bool]] = set()
    for n, (first, second) in zip((3, 3, 4, 3, 5, 3), GIVES, strict=True):
        gives[:] = first, second
        for run in (step, lambda a, b: forward(a, b).backward()):
            a, b = weft.ones(n, requires_grad=True), weft.ones(n, requires_grad=True)
            before = weft.counters.captures
            with block():
                run(a, b)
            is_new = run is step and mode != "split" and (first, second) not in seen
            assert run is not step or weft.counters.captures - before == is_new, (n, first, second)
            assert (a.grad is not None, b.grad is not None) == (first, second)
        seen.add((first, second))


def test_leaves_behind_a_compiled_forward() -> None:
    gives = [True, False]
    _, forward = functions(lambda f: f, gives)
    compiled = weft.compile(lambda a, b: (forward(a, b), b * 2))
    for n in (3, 3, 4):
        a, b = weft.ones(n, requires_grad=True), weft.ones(n, requires_grad=True)
        loss, other = compiled(a, b)
        loss.backward()
        assert a.grad is not None and b.grad is None
        other.sum().backward()
        assert b.grad.tolist() == [2.0] * n
