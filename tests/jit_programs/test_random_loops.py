"""Random functions over numbers: machine code does what the interpreter does, bit by bit, errors with their lines
included. (That the interpreter does what Python does is tested beside this, and machine code too, on fewer programs.)

TEST_LOOPS=1000 tests so many more.
"""

from __future__ import annotations

import math
import os
import struct
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
from tests.conftest import SEED
from tests.jit_programs.random_loops import program
from weft.jit.interpreter.hot import compiled_after

COUNT = int(os.environ.get("TEST_LOOPS", "60"))


def outcome(function: Any, args: tuple[Any, ...]) -> Any:
    """What it gives, numbers as their bits; or what it raises, and where."""
    try:
        found = function(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return tuple([struct.pack("d", v) if type(v) is float and not math.isnan(v) else str(v) for v in found])


@pytest.mark.parametrize("chunk", range(4))
def test_machine_code_does_what_the_interpreter_does(chunk: int) -> None:
    entered = weft.counters.native_calls
    rng = np.random.default_rng([SEED, chunk])
    for seed in rng.integers(1 << 30, size=COUNT // 4):
        text = program(int(seed))
        unit = weft.jit.CompilationUnit(text)
        for _ in range(4):
            args = (int(rng.integers(-50, 200)), float(np.round(rng.uniform(-5, 5), 3)), bool(rng.integers(2)))
            with weft.jit.optimized_execution(False):
                expected = outcome(unit.f, args)
            with compiled_after(int(rng.integers(4))):
                found = outcome(unit.f, args)
            assert found == expected, f"seed {seed}, {args}\n{text}"
    assert weft.counters.native_calls - entered > COUNT // 4
