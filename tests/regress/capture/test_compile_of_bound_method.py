"""weft.compile(optimizer.step): the step itself is the compiled function, so its frames count as the user's.

What it asks of the capture is no guard.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

MAKERS: dict[str, Any] = {
    "SGD": lambda ps: weft.optim.SGD(ps, lr=0.1, momentum=0.9),
    "Adam": lambda ps: weft.optim.Adam(ps, lr=0.01),
    "AdamW": lambda ps: weft.optim.AdamW(ps, lr=0.01),
    "RMSprop": lambda ps: weft.optim.RMSprop(ps, lr=0.01),
    "Adagrad": lambda ps: weft.optim.Adagrad(ps, lr=0.01),
}


def steps(name: str, compiled: bool, count: int = 3) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(3)
    params = [weft.nn.Parameter(weft.from_numpy(generator.standard_normal(n))) for n in (4, 4, 5)]
    optimizer = MAKERS[name](params)
    step = weft.compile(optimizer.step) if compiled else optimizer.step
    for _ in range(count):
        for p in params:
            p.grad = weft.from_numpy(generator.standard_normal(len(p)))
        step()
    return [p.detach().numpy() for p in params]


@pytest.mark.parametrize("name", MAKERS)
def test_a_bound_step_is_captured_once(name: str) -> None:
    before = weft.counters.captures
    found = steps(name, compiled=True)
    assert weft.counters.captures - before == 1
    for a, b in zip(found, steps(name, compiled=False), strict=True):
        np.testing.assert_allclose(a, b, 1e-12)
