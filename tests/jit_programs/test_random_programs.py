"""Random programs: what plain Python gives, the scripted program gives too, with first and second gradients, whether
the interpreter runs it or its plans.

TEST_RANDOM=2000 tests so many more.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn.functional as F
from tests.conftest import SEED
from tests.jit_programs.orders import agree, arguments, orders_of
from tests.jit_programs.random_programs import program
from tests.jit_programs.test_programs import INTERPRETED
from weft.jit.interpreter.hot import compiled_after

CHUNKS = 8
COUNT = int(os.environ.get("TEST_RANDOM", "160"))
PLANNED = int(os.environ.get("TEST_PLANNED", str(COUNT // 16)))


def both(seed: int) -> tuple[str, Any, Any]:
    """A program as text, as a function of Python's, and scripted."""
    text = program(seed)
    space = {"weft": weft, "F": F}
    exec(text, space)
    return text, space["f"], weft.jit.CompilationUnit(text).f


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk: int) -> None:
    start = int(np.random.default_rng([SEED, chunk]).integers(1 << 30))
    for seed in range(start, start + COUNT // CHUNKS):
        text, plain, scripted = both(seed)
        scripted.graph.lint()
        rng = np.random.default_rng(seed)
        for _ in range(3):
            args = arguments(rng)
            with compiled_after(0, INTERPRETED):
                found = orders_of(scripted, args)
            assert agree(orders_of(plain, args), found, exact=True), f"seed {seed}, {args}\n{text}"


def test_random_programs_by_their_plans() -> None:
    start = int(np.random.default_rng([SEED, 99]).integers(1 << 30))
    for seed in range(start, start + PLANNED):
        text, plain, scripted = both(seed)
        rng = np.random.default_rng(seed)
        with compiled_after(0, 0):
            for _ in range(2):
                args = arguments(rng)
                found = orders_of(scripted, args)
                assert agree(orders_of(plain, args), found, exact=False), f"seed {seed}, {args}\n{text}"
