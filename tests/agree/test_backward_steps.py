"""Random steps that go backward and on: every mode leaves what eager mode leaves (backward_steps.py). A failure shows
the program; shrink it by hand and keep it as a case of tests/regress."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.backward_steps import Run, difference, draw
from tests.agree.width import times
from tests.deferred import deferred
from weft.compiled_autograd import enable
from weft.compiled_autograd import interpret as interpreted_backward

IN_A_TEST = 12
REFUSALS = {  # what a program refuses, and why
    r"computed before the call and has a history of its own": "histories end at the call",
    r"tensors of the classes": "the values of a block have one class",
}


def compiled(function: Any) -> Any:
    return weft.compile(function, backend="interpret")


Wrap, Block = Callable[[Any], Any], Callable[[], AbstractContextManager[Any]]
MODES: dict[str, tuple[Wrap, str | None, Block, int]] = {  # how, where, within what, and how rarely
    "compiled": (compiled, None, nullcontext, 1),
    "native": (weft.compile, None, nullcontext, 12),
    "split": (lambda f: weft.compile(f, split=True, backend="interpret"), None, nullcontext, 2),
    "deferred": (lambda f: deferred(f, "interpret"), None, nullcontext, 4),
    "lazy": (lambda f: f, "lazy", nullcontext, 6),
    "compiled autograd": (lambda f: f, None, lambda: enable(interpreted_backward), 2),
    "compiled, and its backward": (compiled, None, lambda: enable(interpreted_backward), 2),
}


def run(seed: int, mode: str | None = None, like: Run | None = None) -> Run:
    """A program in a mode, by default eagerly."""
    wrap, device, block, _ = (lambda f: f, None, nullcontext, 1) if mode is None else MODES[mode]
    with warnings.catch_warnings(), block():
        warnings.simplefilter("ignore")
        return Run(draw(seed), wrap, device).run(like)


@pytest.mark.parametrize("mode", MODES)
def test_programs(mode: str, rng: np.random.Generator) -> None:
    for seed in rng.integers(0, 2**32, times(IN_A_TEST, MODES[mode][-1])).tolist():
        expected = run(seed)
        outcome = run(seed, mode, expected)
        problem = difference(outcome, expected)
        if problem is not None and any(re.search(words, str(outcome.error)) for words in REFUSALS):
            problem = None
        assert problem is None, f"{mode}: {problem}\n{draw(seed)}"


def test_most_programs_end_well() -> None:
    runs = [run(seed) for seed in range(20)]
    assert sum(r.error is None for r in runs) > 15
    assert sum(len(r.notes) for r in runs) > 1000


def test_the_comparison_sees_a_difference() -> None:
    for seed in range(8):
        expected, outcome = run(seed), run(seed)
        assert difference(outcome, expected) is None
        at = next(i for i, (_, value) in enumerate(outcome.notes) if isinstance(value, np.ndarray))
        outcome.notes[at] = (outcome.notes[at][0], outcome.notes[at][1] + 1e-3)
        assert difference(outcome, expected) is not None
