"""Random programs: what plain Python gives, the scripted program gives too, gradients included."""

from __future__ import annotations

import os

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn.functional as F
from tests.jit_programs.random_programs import program
from tests.jit_programs.test_programs import INTERPRETED, close, outcome, same
from weft.jit.hot import compiled_after

CHUNK = 25
PLANNED = int(os.environ.get("TEST_PLANNED", "12"))


@pytest.mark.parametrize("chunk", range(8))
def test_random_programs(chunk: int) -> None:
    start = int(np.random.default_rng(chunk).integers(1 << 30))
    for seed in range(start, start + CHUNK):
        text = program(seed)
        space = {"weft": weft, "F": F}
        exec(text, space)
        unit = weft.jit.CompilationUnit(text)
        unit.f.graph.lint()
        rng = np.random.default_rng(seed)
        for _ in range(3):
            x = weft.from_numpy(rng.uniform(-2, 2, 3).astype(np.float32))
            args = [x, float(np.round(rng.uniform(-3, 3), 2)), int(rng.integers(-3, 9))]
            with compiled_after(0, INTERPRETED):
                assert same(outcome(space["f"], args), outcome(unit.f, args)), f"seed {seed}, {args}\n{text}"


def test_random_programs_by_their_plans() -> None:
    start = int(np.random.default_rng(99).integers(1 << 30))
    for seed in range(start, start + PLANNED):
        text = program(seed)
        space = {"weft": weft, "F": F}
        exec(text, space)
        unit = weft.jit.CompilationUnit(text)
        rng = np.random.default_rng(seed)
        with compiled_after(0, 0):
            for _ in range(2):
                x = weft.from_numpy(rng.uniform(-2, 2, 3).astype(np.float32))
                args = [x, float(np.round(rng.uniform(-3, 3), 2)), int(rng.integers(-3, 9))]
                assert close(outcome(space["f"], args), outcome(unit.f, args)), f"seed {seed}, {args}\n{text}"
