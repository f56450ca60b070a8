"""Gradients of two orders pass the hooks of random functions in every mode as in eager mode (hooked.py)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from tests.agree.hooked import Forward, draw, function, gradients
from tests.agree.width import times
from tests.deferred import deferred

MODES: dict[str, Callable[[Forward], Forward]] = {
    "compiled": lambda f: weft.compile(f, backend="interpret"),
    "native": weft.compile,
    "split": lambda f: weft.compile(f, split=True, backend="interpret"),
    "deferred": lambda f: deferred(f, "interpret"),
}


@pytest.mark.parametrize("mode", MODES)
def test_programs(mode: str, rng: np.random.Generator) -> None:
    for seed in rng.integers(0, 2**32, times(32, 4 if mode == "native" else 1)).tolist():
        text = draw(seed)
        calls = [rng.uniform(-1.2, 1.2, (2, n)) for n in (3, 3, int(rng.integers(1, 5)), 4)]
        expected, notes = (gradients(f, calls) for f in (function(text), MODES[mode](function(text))))
        for at, (before, now) in enumerate(zip(expected, notes, strict=True)):
            for number, (a, b) in enumerate(zip(before, now, strict=True)):
                np.testing.assert_allclose(
                    b, a, rtol=1e-6, atol=1e-8, err_msg=f"{mode}, seed {seed}, call {at}, note {number}\n{text}"
                )
