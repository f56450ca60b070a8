"""Lifted numbers behave as the numbers that they stand for: one capture for every value, in arithmetic, math,
isinstance and text."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


class State:
    def __init__(self) -> None:
        self.n, self.k = 0, 0.5


# each program with the captures that eight calls may cost, when n counts them
PROGRAMS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "n / 10": (lambda s: s.n / 10, 1),
    "1 / (1 + n)": (lambda s: 1 / (1 + s.n), 1),
    "0.99 ** n": (lambda s: 0.99**s.n, 1),
    "n ** 0.5": (lambda s: s.n**0.5, 1),
    "0.5 - n": (lambda s: 0.5 - s.n, 1),
    "n * k": (lambda s: s.n * s.k - s.n / s.k, 1),
    "n % 3 + n // 2": (lambda s: s.n % 3 + s.n // 2 + (s.n << 1), 1),
    "cosine": (lambda s: 0.5 * (1 + math.cos(math.pi * s.n / 10)), 1),
    "roots and logarithms": (
        lambda s: math.sqrt(s.n) + math.log(s.n + 1) / math.log(2) + math.log(s.n, 3) + math.exp(-s.n / 3), 1
    ),
    "math.pow": (lambda s: math.pow(0.9, s.n) + math.fabs(-s.n / 2), 1),
    "warm-up": (lambda s: min(1.0, s.n / 3), 2),
    "alternating": (lambda s: 2.0 if s.n % 2 else 3.0, 2),
    "whole steps": (lambda s: math.floor(s.n / 4) + int(s.n / 4) + round(s.n / 4), 5),
    "isinstance": (lambda s: (2.0 if isinstance(s.n, int) else 3.0) + (isinstance(s.k, float)), 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_eight_values(name: str) -> None:
    value, allowed = PROGRAMS[name]
    logs = []
    weft.counters.reset()
    for wrap in (lambda f: f, weft.compile):
        state = State()

        def step(x: weft.Tensor, state: State = state) -> Any:
            state.n += 1
            return x * value(state)

        run = wrap(step)
        logs.append([run(weft.ones(2, dtype=weft.float64)).tolist() for _ in range(8)])
        assert state.n == 8
    np.testing.assert_allclose(logs[1], logs[0], rtol=1e-14)
    assert weft.counters.captures == allowed


def test_text_is_that_of_the_number() -> None:
    state = State()
    step = weft.compile(lambda x: (f"{state.n}-{state.n:03d}", str(state.k), {str(state.n): x}))
    for n in (3, 5, 5):
        state.n, state.k = n, n / 2
        text, other, found = step(weft.ones(1))
        assert (text, other, list(found)) == (f"{n}-{n:03d}", str(n / 2), [str(n)])


def test_an_error_of_math_is_raised() -> None:
    state = State()
    state.k = 2.0
    step = weft.compile(lambda x: x * math.sqrt(state.k))
    step(weft.ones(1))
    state.k = 3.0
    step(weft.ones(1))
    state.k = -1.0
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        step(weft.ones(1))


@pytest.mark.parametrize("divide", [lambda s: 2 / s.k, lambda s: s.k / s.k, lambda s: s.n / (s.k * 2)])
def test_a_division_by_a_number_that_becomes_0_is_refused(divide: Callable[[Any], Any]) -> None:
    state = State()
    step = weft.compile(lambda x: x * divide(state))
    for n, k in ((1, 2.0), (2, 3.0), (3, 4.0)):
        state.n, state.k = n, k
        np.testing.assert_allclose(step(weft.ones(1)).tolist(), [divide(state)], rtol=1e-6)
    assert len(step.misses) <= 2
    state.k = 0.0
    with pytest.raises(ZeroDivisionError):
        step(weft.ones(1))
    state.k = 5.0
    np.testing.assert_allclose(step(weft.ones(1)).tolist(), [divide(state)], rtol=1e-6)


def test_math_is_pythons_own_outside() -> None:
    weft.compile(lambda x: x * math.cos(0.0))(weft.ones(1))
    assert type(math.cos) is type(len)


def test_a_variable_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    step = weft.compile(lambda x: x * float(os.environ.get("SCALE", "1")) + ("BIAS" in os.environ))
    for name, value, expected in (
        (("SCALE", None, 1.0), ("SCALE", "3", 3.0), ("BIAS", "yes", 4.0), ("SCALE", None, 2.0))
    ):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
        assert step(weft.ones(1)).item() == expected
    assert "os.environ['SCALE'] was (absent), is now '3'" in step.misses[0]


def test_writing_to_the_environment_is_refused() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        os.environ["SCALE"] = "5"
        return x

    with pytest.raises(weft.WeftError, match=r"test_lifted_number_arithmetic_and_text.py:\d+ changes the environment"):
        weft.compile(step)(weft.ones(1))
    assert "SCALE" not in os.environ
