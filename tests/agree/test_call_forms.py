"""Random ways of calling one function: every mode gives what eager mode gives (call_forms.py)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.call_forms import difference, draw, run
from tests.agree.width import times
from tests.deferred import deferred

IN_A_TEST = 20
MODES: dict[str, Any] = {
    "compile": lambda f: weft.compile(f, backend="interpret"), "native": weft.compile,
    "split": lambda f: weft.compile(f, split=True, backend="interpret"), "deferred": lambda f: deferred(f, "interpret"),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_each_call_is_as_in_eager_mode(mode: str, rng: np.random.Generator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(times(IN_A_TEST if mode != "native" else 4)):
            program = draw(rng)
            problem = difference(run(program, MODES[mode]), run(program, lambda f: f))
            assert problem is None, f"{program}\n{problem}"


def test_most_programs_are_neither_wrong_nor_refused(rng: np.random.Generator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [run(draw(rng), MODES["compile"]) for _ in range(6)]
    assert sum(not isinstance(seen[-1], Exception) for seen in runs) >= 4
