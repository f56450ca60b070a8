"""retain_grad() that a compiled step calls on an argument with a history, or on a tensor of Python's state, was lost;
and detach_() of a leaf of Python's state happened once."""

from __future__ import annotations

from typing import Any

import pytest

import weft


class Holder:
    """An object older than the calls."""


@pytest.mark.parametrize("name", ["x", "s"])
@pytest.mark.parametrize("split", [False, True])
def test_retained(name: str, split: bool) -> None:
    def step(x: Any, h: Any) -> Any:
        (x if name == "x" else h.s).retain_grad()
        return x * h.s

    for wrap in (lambda f: f, lambda f: weft.compile(f, backend="interpret", split=split)):
        h, leaf = Holder(), weft.ones(1, requires_grad=True)
        run = wrap(lambda x, h=h: step(x, h))
        for n in (2, 2, 3):
            x, h.s = weft.ones(n, requires_grad=True) * 3, leaf * 2  # type: ignore[attr-defined]
            run(x).sum().backward()
            assert (x.retains_grad, h.s.retains_grad) == (name == "x", name == "s")  # type: ignore[attr-defined]
            kept = x if name == "x" else h.s  # type: ignore[attr-defined]
            assert kept.grad is not None and kept.grad.tolist() == ([2.0] * n if name == "x" else [3.0 * n])


def test_detached_leaf() -> None:
    p = weft.ones(2, requires_grad=True)

    @weft.compile
    def step(x: Any) -> Any:
        p.detach_()
        return x * p

    for _ in range(3):
        p.requires_grad_()
        assert not step(weft.ones(2)).requires_grad and not p.requires_grad
