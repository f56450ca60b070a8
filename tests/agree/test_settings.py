"""Settings that change between a call and its backward, and from call to call (settings.py): compiled and split
functions give what eager mode gives under the same settings, in gradients of both orders."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

import weft
from tests.agree.settings import BODIES, Block, Body, Program, difference, draw, run
from tests.agree.width import times
from tests.deferred import deferred

WAYS: dict[str, tuple[Callable[[Body], Body], Block]] = {
    "compile": (weft.compile, nullcontext), "split": (partial(weft.compile, split=True), nullcontext),
    "interpret": (partial(weft.compile, backend="interpret"), nullcontext), "deferred": (deferred, nullcontext),
    "captured backward": (lambda f: f, weft.compiled_autograd.enable),
    "captured backward of a compiled function": (weft.compile, weft.compiled_autograd.enable),
}


@pytest.fixture(autouse=True)
def _as_they_were() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    weft.set_default_dtype(weft.float32)


def problem(program: Program, way: str) -> str | None:
    return difference(run(program, *WAYS[way]), run(program, lambda f: f), program.closeness)


def check(program: Program, way: str) -> None:
    """Fails with the fewest calls that differ."""
    wrong = problem(program, way)
    if wrong is None:
        return
    for i in reversed(range(len(program.calls))):
        fewer = Program(program.body, program.dtype, program.calls[:i] + program.calls[i + 1 :], program.orders)
        if fewer.calls and problem(fewer, way) is not None:
            program = fewer
    raise AssertionError(f"{way}: {program}\n{problem(program, way)}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", BODIES)
def test_calls_under_changing_settings(body: str, way: str, rng: np.random.Generator) -> None:
    for _ in range(times(1)):
        drawn = draw(rng)
        while drawn.body != body:
            drawn = draw(rng)
        check(drawn, way)


def test_a_difference_is_seen() -> None:
    program = Program("in_full", "float64", ((2, "none", "none"),), 2)
    expected = run(program, lambda f: f)
    for i in range(len(expected[0]) - 2):
        outcomes = run(program, lambda f: f)
        assert difference(outcomes, expected, 1e-9) is None
        outcomes[0][i] = outcomes[0][i] + 1e-3
        assert difference(outcomes, expected, 1e-9) is not None
