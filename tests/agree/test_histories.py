"""Random programs whose results are fed back, differentiated by one another, heard and written: all modes do as eager
mode does (histories.py). A failure shows the program; shrink it by hand and keep it as a case of tests/regress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.histories import Run, difference, draw, quietly
from tests.agree.width import times
from tests.deferred import deferred
from weft.compiled_autograd import enable
from weft.compiled_autograd import interpret as interpreted_backward

IN_A_TEST = 25


class Mode:
    """How programs run. counts: whether checkpointed regions may count their runs (a backward that is recorded for its
    callers refuses that)."""

    def __init__(
        self, wrap: Callable[[Any], Any] = lambda f: f, device: str | None = None,
        block: Callable[[], AbstractContextManager[Any]] = nullcontext, counts: bool = True, rarely: int = 1,
    ) -> None:
        self.wrap, self.device, self.block, self.counts, self.rarely = wrap, device, block, counts, rarely

    def run(self, seed: int) -> Any:
        with self.block():
            return quietly(Run(draw(seed), self.wrap, self.device, self.counts).run)


def compiled(function: Any) -> Any:
    return weft.compile(function, backend="interpret")


MODES = {
    "compiled": Mode(compiled, counts=False),
    "native": Mode(weft.compile, counts=False, rarely=8),
    "split": Mode(lambda f: weft.compile(f, split=True, backend="interpret")),
    "deferred": Mode(lambda f: deferred(f, "interpret"), rarely=4),
    "lazy": Mode(device="lazy", rarely=8),
    "compiled autograd": Mode(block=lambda: enable(interpreted_backward), rarely=2),
    "compiled, and its backward": Mode(compiled, block=lambda: enable(interpreted_backward), counts=False, rarely=2),
}


@pytest.mark.parametrize("mode", MODES)
def test_programs(mode: str, rng: np.random.Generator) -> None:
    chosen = MODES[mode]
    for seed in rng.integers(0, 2**32, times(IN_A_TEST, chosen.rarely)).tolist():
        expected = Mode(counts=chosen.counts).run(seed)
        problem = difference(expected, chosen.run(seed), "Parameter(" in draw(seed).text)
        assert problem is None, f"{mode}: {problem}\n{draw(seed)}"


def test_programs_are_not_all_refused() -> None:
    """Most actions give something."""
    notes = [note for seed in range(16) for note in Mode().run(seed)]
    errors = [what for what, value in notes if isinstance(value, str)]
    assert len(notes) > 400 and len(errors) < len(notes) / 10


def test_the_comparison_sees_a_difference() -> None:
    for seed in range(8):
        notes = Mode().run(seed)
        assert difference(notes, Mode().run(seed)) is None
        at = next((i for i, (_, value) in enumerate(notes) if isinstance(value, np.ndarray)), None)
        if at is None:
            continue
        notes[at] = (notes[at][0], notes[at][1] + 1e-3)
        assert difference(notes, Mode().run(seed)) is not None
