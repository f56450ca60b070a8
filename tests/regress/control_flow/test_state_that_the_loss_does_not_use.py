"""A parameter that feeds only a state of a loop that nothing differentiates gets no gradient (it got zeros)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Step = Callable[..., Any]


def by_size(x: Any, s: Any, r: Any, w: Any) -> Any:
    loss = weft.zeros((), dtype=x.dtype)
    for t in range(x.shape[0]):
        s, r = weft.tanh(s * w + x[t]), weft.sin(r * 0.9 + x[t]) * 0.5
        loss = loss + (r * r).sum()
    return loss, s


def by_number(x: Any, s: Any, r: Any, w: Any) -> Any:
    rows = []
    for t in range(16):
        s, r = weft.tanh(s * w + x[t]), weft.sin(r * 0.9 + x[t]) * 0.5
        rows.append(r)
    return weft.stack(rows).square().sum(), s


def crossing(x: Any, s: Any, r: Any, w: Any) -> Any:
    """Here the second state reads the first one, an iteration later."""
    for t in range(16):
        s, r = weft.tanh(s * w + x[t]), weft.sin(r * 0.9 + s) * 0.5
    return r.sum(), s


def scanned(x: Any, s: Any, r: Any, w: Any) -> Any:
    def body(states: Any, row: Any) -> Any:
        s, r = states
        s, r = weft.tanh(s * w + row), weft.sin(r * 0.9 + row) * 0.5
        return (s, r), r * r

    (s, _), squares = weft.scan(body, (s, r), x)
    return squares.sum(), s


def gradients(step: Step, seed: int, which: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(seed)
    x, s, r, w = (weft.from_numpy(rng.normal(size=n)) for n in ((16, 3), 3, 3, 3))
    leaves = [t.requires_grad_() for t in (s, r, w)]
    results = step(x, *leaves)
    sum(results[i].sum() for i in which).backward()
    return [None if t.grad is None else t.grad.numpy().copy() for t in leaves]


@pytest.mark.parametrize("function", [by_size, by_number, crossing, scanned])
@pytest.mark.parametrize("fold", ["on", "off"])
def test_who_gets_a_gradient(function: Step, fold: str) -> None:
    with weft.knobs(fold=fold):
        compiled = weft.compile(function)
        for call, which in enumerate([(0,), (1,), (0, 1), (0,)]):
            expected = gradients(function, call, which)
            for a, b in zip(gradients(compiled, call, which), expected, strict=True):
                assert (a is None) == (b is None)
                if b is not None:
                    np.testing.assert_allclose(a, b, 1e-10, 1e-10)
