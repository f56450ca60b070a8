"""Programs that draw give the numbers of eager mode in every mode, call by call, and leave generators where it does."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.agree.draws import MODES, Program, check, draw, fits, run, shrink
from tests.agree.width import TIMES, times

COUNT = 4
SEEDS = np.random.default_rng([int(os.environ["WEFT_TEST_SEED"]), 24]).integers(1 << 40, size=times(COUNT))


def modes_of(program: Program) -> tuple[str, ...]:
    """By default two, drawn: a program is captured four times in each."""
    possible = [mode for mode in MODES if fits(program, mode)]
    if TIMES > 1:
        return tuple(possible)
    return tuple(np.random.default_rng([program.seed, 5]).choice(possible, 2, replace=False).tolist())


@pytest.mark.parametrize("seed", SEEDS.tolist())
def test_each_call_draws_as_eager_mode_does(seed: int) -> None:
    program = draw(seed)
    run(program, "eager")
    modes = modes_of(program)
    try:
        check(program, modes)
    except Exception as error:
        smallest = shrink(program, modes)
        raise AssertionError(
            f"seed {seed}, {modes}: {type(error).__name__}: {error}\n{smallest}\n{smallest.source()}"
        ) from error
