"""associative_scan against a loop, with gradients, compiled, for every length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft._higher_order_ops import associative_scan

RNG = np.random.Generator


def recurrence(left: Any, right: Any) -> Any:
    """x_t = a_t x_{t-1} + b_t, as pairs (a, b)."""
    return left[0] * right[0], right[0] * left[1] + right[1]


def looped(a: Any, b: Any, reverse: bool) -> Any:
    rows = range(a.shape[1])
    state, states = weft.zeros_like(b[:, 0]), []
    for t in reversed(rows) if reverse else rows:
        state = a[:, t] * state + b[:, t]
        states.append(state)
    return weft.stack(states[::-1] if reverse else states, 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", ["eager", "compile", "split"])
def test_a_linear_recurrence_of_any_length(rng: RNG, mode: str, reverse: bool) -> None:
    def scanned(a: Any, b: Any) -> Any:
        return associative_scan(recurrence, (a, b), 1, reverse=reverse)[1]

    run = scanned if mode == "eager" else weft.compile(scanned, split=mode == "split")
    for length in (1, 2, 5, 8, 3, 7):
        a, b = (weft.from_numpy(rng.normal(size=(3, length, 2))).requires_grad_() for _ in range(2))
        out, expected = run(a, b), looped(a, b, reverse)
        assert weft.allclose(out, expected)
        for grad, right in zip(*(
            weft.autograd.grad(o.sin().sum() + a.sum(), (a, b)) for o in (out, expected)  # of one row, a is not asked
        ), strict=True):
            assert weft.allclose(grad, right)


def test_containers_and_what_is_refused(rng: RNG) -> None:
    x = weft.from_numpy(rng.normal(size=(4, 3)))
    sums = associative_scan(lambda p, q: {"s": p["s"] + q["s"]}, {"s": x}, 0, combine_mode="generic")
    assert weft.allclose(sums["s"], x.cumsum(0))
    for problem, call in (
        ("combine_mode", lambda: associative_scan(recurrence, (x, x), 0, combine_mode="absent")),
        ("at least one leaf", lambda: associative_scan(recurrence, (), 0)),
        ("lengths", lambda: associative_scan(recurrence, (x, x[:2]), 0)),
        ("combine_fn", lambda: associative_scan(lambda p, q: (p, q), x, 0)),
    ):
        with pytest.raises(weft.WeftError, match=problem):
            call()
