"""A backward call through one result of a compiled call comes to no history of an argument that only other results are
computed from: it freed that history, and hooks and custom Functions there heard that nothing came."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
import pytest

import weft
from weft.compiled_autograd import enable, interpret

WAYS: dict[str, tuple[Callable[[Any], Any], Callable[[], AbstractContextManager[Any]]]] = {
    "native": (weft.compile, nullcontext),
    "in parts": (lambda f: weft.compile(f, split=True), nullcontext),
    "compiled autograd": (weft.compile, lambda: enable(interpret)),
}
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "apart": lambda x, h: (x * 2, h * x),
    "one of both": lambda x, h: (x.sin(), h * h, h * x),
    "computed from each other": lambda x, h: _inner(x * 3, h),
}


def _inner(y: Any, h: Any) -> Any:
    z = y * h
    return y * y, z, z.sin()


class _Doubled(weft.autograd.Function):
    heard: ClassVar[list[Any]] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        _Doubled.heard.append(g.tolist())
        return g * 2


def _notes(function: Any, values: Any, keeps: bool, asks: bool) -> list[Any]:
    _Doubled.heard = heard = []
    w, x = weft.tensor(values[0]).requires_grad_(), weft.tensor(values[1]).requires_grad_()
    h = _Doubled.apply(w.sin() * w)
    h.register_hook(lambda g: heard.append(("hook", g.tolist())))
    node = h.grad_fn
    node.register_prehook(lambda grads: heard.append(("before", len(grads))))
    node.register_hook(lambda made, grads: heard.append(("after", len(grads))))
    results = function(x, h)
    if asks:
        results[1].retain_grad()  # (cuts the node of the call where this one is an inner result)
    for result in results:
        try:
            result.sum().backward(retain_graph=keeps)
        except RuntimeError:
            heard.append("freed")
    return [*heard, x.grad, w.grad, results[1].grad if asks else None]


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("which", FUNCTIONS)
@pytest.mark.parametrize("way", WAYS)
def test_as_in_eager_mode(way: str, which: str, keeps: bool, asks: bool, rng: np.random.Generator) -> None:
    wrap, block = WAYS[way]
    values = rng.standard_normal((2, int(rng.integers(2, 6))))
    expected = _notes(FUNCTIONS[which], values, keeps, asks)
    if way == "compiled autograd" and "freed" in expected:
        return  # (which raises before anything runs: docs/differences.md)
    with block():
        actual = _notes(wrap(FUNCTIONS[which]), values, keeps, asks)
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        if isinstance(b, weft.Tensor):
            np.testing.assert_allclose(a.tolist(), b.tolist())
        elif isinstance(b, list):
            np.testing.assert_allclose(a, b)
        elif b is None or b == "freed" or b[0] != "hook":
            assert a == b
        else:
            np.testing.assert_allclose(a[1], b[1])
