"""Random programs of all dtypes and layouts: captured they have eager mode's values, strides and aliases.
WEFT_AGREE=20 runs twenty times as many."""

from __future__ import annotations

import numpy as np
import pytest

from tests.agree.mixed import draw, problem, shrink
from tests.agree.width import times


@pytest.mark.parametrize("mode,count", [("interpret", 40), ("numpy", 12), ("llvm", 12)])
def test_a_captured_program_is_the_eager_one(mode: str, count: int, rng: np.random.Generator) -> None:
    for seed in (int(s) for s in rng.integers(2**31, size=times(count))):
        program = draw(seed, int(rng.integers(2, 12)))
        if problem(program, mode) is None:
            continue
        small = shrink(program, mode)
        raise AssertionError(
            f"seed {seed}, {mode}: {problem(small, mode)}\narguments {small.arguments}\n{small.source()}"
        )
