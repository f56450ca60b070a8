"""A float that no integer of 64 bits holds is refused where a script makes an integer of it, interpreted and natively;
a compiled function has Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def floors(x: float) -> int:
    return math.floor(x)


def ceils(x: float) -> int:
    return math.ceil(x)


def cuts(x: float) -> int:
    return math.trunc(x)


def rounds(x: float) -> int:
    return round(x)


def converts(x: float) -> int:
    return int(x)


def loops(x: float) -> int:
    total = 0
    for i in range(300):
        total += int(math.floor(x) % 7 + i)
    return total


_FUNCTIONS = [floors, ceils, cuts, rounds, converts, loops]
_OUTSIDE = [2.0**63, -(2.0**63) * (1 + 2.0**-52), 1e19, -1e19, 9.3e18, 2.0**64, 1e300, -1e300]


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_scripts(function: Callable[[float], int], rng: np.random.Generator) -> None:
    script = weft.jit.script(function)
    inside = [0.0, -2.5, 4.5, -(2.0**63), 2.0**63 - 1024, *(rng.normal(size=4) * 10.0 ** rng.integers(0, 18, 4))]
    for x in [*map(float, inside), *_OUTSIDE, 1.5]:
        if x in _OUTSIDE:
            with pytest.raises(OverflowError, match="64 bits"):
                script(x)
        else:
            assert script(x) == function(x)


def _from_tensor(t: weft.Tensor) -> int:
    return int(t)


def _from_text(text: str) -> int:
    return int(text)


@pytest.mark.parametrize(("function", "value"), [
    (_from_tensor, weft.tensor(1e19, dtype=weft.float64)), (_from_text, "99999999999999999999"),
])
def test_tensors_and_texts(function: Callable[[Any], int], value: Any) -> None:
    with pytest.raises(OverflowError, match="64 bits"):
        weft.jit.script(function)(value)


def test_lifted_numbers_stay_pythons() -> None:
    def step(x: weft.Tensor, s: float) -> tuple[Any, ...]:
        return x * math.floor(s), math.floor(s), int(s), math.trunc(s), math.ceil(s), round(s)

    compiled, x = weft.compile(step), weft.ones(2, dtype=weft.float64)
    for s in (1.5, 2.5, 3.7, *_OUTSIDE, -4.5):
        assert compiled(x, s)[1:] == step(x, s)[1:]
        assert compiled(x, s)[0].tolist() == step(x, s)[0].tolist()
