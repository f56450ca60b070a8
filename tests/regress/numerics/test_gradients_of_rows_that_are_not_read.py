"""A loop gave gradients of zeros to what its iterations computed where only some of it is read behind the loop: times a
derivative without a value (of a square root at 0) they were NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def one_of_a_list(p: Any, x: Any, h: Any, n: int) -> Any:
    roots = []
    for t in range(n):
        h = weft.tanh(x[t] * 0.5 + 0.9 * h)
        roots.append(weft.sqrt(x[t] * p))
    return roots[n - 2].sum() + h.sum()


def nothing_else(p: Any, x: Any, h: Any, n: int) -> Any:
    roots = []
    for t in range(n):
        h = weft.tanh(x[t] * 0.5 + 0.9 * h)
        roots.append(weft.sqrt(x[t] * p) * weft.sin(x[t]) + h.detach())
    return roots[9].sum()


def the_last_ones(p: Any, x: Any, h: Any, n: int) -> Any:
    roots = []
    for t in range(n):
        h = weft.tanh(x[t] * 0.5 + 0.9 * h)
        roots.append(weft.sqrt(x[t] * p) + h * 0.5)
    return weft.stack(roots[6:]).sum()


def a_state(p: Any, x: Any, h: Any, n: int) -> Any:
    states = []
    for t in range(n):
        h = weft.sqrt(x[t] * p * h + x[t])
        states.append(h)
    return states[2].sum() + states[1].square().sum()


def many_of_a_list(p: Any, x: Any, h: Any, n: int) -> Any:
    roots = []
    for t in range(n):
        h = weft.tanh(x[t] * 0.5 + 0.9 * h)
        roots.append(weft.sqrt(x[t] * p))
    return sum(r.sum() for r in roots[1::2]) + h.sum()


def the_end_of_a_list(p: Any, x: Any, h: Any, n: int) -> Any:
    roots = []
    for t in range(x.shape[0]):
        h = weft.tanh(x[t] * 0.5 + 0.9 * h)
        roots.append(weft.sqrt(x[t] * p))
    return roots[-1].sum() + roots[-3].square().sum() + h.sum()


def the_end_alone(p: Any, x: Any, h: Any, n: int) -> Any:
    roots = []
    for t in range(x.shape[0]):
        h = weft.tanh(x[t] * 0.5 + 0.9 * h)
        roots.append(weft.sqrt(x[t] * p) * weft.sin(x[t]) + h.detach())
    return roots[-2].sum()


@pytest.mark.parametrize("function", [
    one_of_a_list, nothing_else, the_last_ones, a_state, many_of_a_list, the_end_of_a_list, the_end_alone,
])  # fmt: skip
def test_gradients(function: Callable[..., Any]) -> None:
    seen = []
    for fold in ("on", "off"):
        with weft.knobs(fold=fold):
            step = weft.compile(function)
            for call, n in enumerate((20, 17, 26)):
                rng = np.random.default_rng(call)
                values = np.abs(rng.normal(size=(n, 3))) + 0.1
                values[4] = 0  # what is computed of it is not read
                given = [weft.tensor(v, requires_grad=True) for v in (np.ones(3), values, np.ones(3))]
                loss = step(*given, n)
                loss.backward()
                seen.append([loss.detach().numpy(), *(None if g.grad is None else g.grad.numpy() for g in given)])
    for folded, unrolled in zip(seen[:3], seen[3:], strict=True):
        for a, b in zip(folded, unrolled, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert not np.isnan(a).any()
                assert a.tobytes() == b.tobytes()
