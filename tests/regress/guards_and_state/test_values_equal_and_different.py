"""Values that Python calls equal and a step can tell apart: a change from one to the other between two calls was not
seen. The content of a context variable, whole numbers beyond 64 bits and a generator without a state are here, too."""

from __future__ import annotations

import contextvars
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import weft

PAIRS: list[tuple[Any, Any, Callable[[Any], float]]] = [
    (range(0, 3, 2), range(0, 4, 2), lambda value: float(value.stop)),
    (slice(0.0), slice(-0.0), lambda value: math.copysign(2.0, value.stop)),
    (frozenset({0.0}), frozenset({-0.0}), lambda value: math.copysign(2.0, next(iter(value)))),
    (frozenset({(0.0, 1)}), frozenset({(-0.0, 1)}), lambda value: math.copysign(2.0, next(iter(value))[0])),
    (frozenset({0j}), frozenset({complex(0.0, -0.0)}), lambda value: math.copysign(2.0, next(iter(value)).imag)),
]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: type(pair[0]).__name__)
def test_equal_values_that_a_step_tells_apart(pair: tuple[Any, Any, Callable[[Any], float]], split: bool) -> None:
    first, second, number_of = pair
    held = [first]
    compiled = weft.compile(lambda x: x * number_of(held[0]), split=split)
    for value in (first, second, first, second):
        held[0] = value
        assert compiled(weft.ones(2)).tolist() == [number_of(value)] * 2


@pytest.mark.parametrize("split", [False, True])
def test_what_a_context_variable_holds(split: bool) -> None:
    variable: contextvars.ContextVar[dict[str, float]] = contextvars.ContextVar("variable")
    variable.set({"k": 2.0})
    compiled = weft.compile(lambda x: x * variable.get()["k"], split=split)
    for number in (2.0, 3.0, 5.0):
        variable.get()["k"] = number
        assert compiled(weft.ones(2)).tolist() == [number] * 2
    variable.set({"k": 7.0})
    assert compiled(weft.ones(2)).tolist() == [7.0, 7.0]


@pytest.mark.parametrize("split", [False, True])
def test_whole_numbers_beyond_64_bits(split: bool) -> None:
    held = [2**70]
    compiled = weft.compile(lambda x: x * float(held[0] >> 68), split=split)
    for number in (2**70, 2**70 + 2**68, -(2**71)):
        held[0] = number
        assert compiled(weft.ones(2)).tolist() == [float(number >> 68)] * 2


@pytest.mark.parametrize("split", [False, True])
def test_a_generator_that_has_no_state(split: bool) -> None:
    held = {"system": random.SystemRandom(), "k": 3.0}
    assert weft.compile(lambda x: x * len(held), split=split)(weft.ones(2)).tolist() == [2.0, 2.0]
