"""Random programs in weft.compile: what the interpreter gives, the native program gives too, with first and second
gradients.

Those whose lists hang on values are refused. TEST_RECORDED=200 tests so many more.
"""

from __future__ import annotations

import os

import numpy as np

import weft
import weft.jit
from tests.conftest import SEED
from tests.jit_programs.orders import agree, arguments, orders_of
from tests.jit_programs.random_programs import program

COUNT = int(os.environ.get("TEST_RECORDED", "8"))


def test_random_programs_in_native_programs() -> None:
    refused = 0
    start = int(np.random.default_rng([SEED, 77]).integers(1 << 30))
    for seed in range(start, start + COUNT):
        text = program(seed)
        interpreted = weft.jit.CompilationUnit(text).f
        compiled = weft.compile(interpreted)
        rng = np.random.default_rng(seed)
        for _ in range(2):
            args = arguments(rng)
            found, expected = orders_of(compiled, args), orders_of(interpreted, args)
            if found.refused:
                refused += 1
                continue
            assert agree(found, expected, exact=False), f"seed {seed}, {args}\n{text}"
    assert refused <= COUNT // 2
