"""Random programs with control flow: a batch gives what a loop over the examples gives, with gradients of first and
second order. WEFT_BATCHES says how many are drawn."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
from tests.jit_batches.batches import all_close, batch_of, draw, same_gradients
from tests.jit_batches.random_batches import program
from tests.jit_programs.random_programs import program as program_of_numbers
from weft.jit import BatchTensor, batch

COUNT = 4
PROGRAMS = int(os.environ.get("WEFT_BATCHES", "20"))


def compare(found: Any, wanted: list[Any], leaves: list[Any], rng: np.random.Generator) -> None:
    """A result of the batch is what the examples gave."""
    if isinstance(found, BatchTensor):
        rank = found.examples()[0].ndim
        wanted = [w if w.ndim == rank else w.unsqueeze(0) for w in wanted]
        all_close(found, wanted)
        if any(w.requires_grad for w in wanted):
            same_gradients(found, wanted, leaves, rng)
    elif isinstance(found, tuple) or any(isinstance(part, BatchTensor) for part in found):
        for at, part in enumerate(found):
            compare(part, [w[at] for w in wanted], leaves, rng)
    else:
        assert repr(found) == repr(wanted)


def outcomes(function: Any, given: list[tuple[Any, ...]]) -> list[Any] | Exception:
    """What the examples give, or the first error."""
    try:
        return [function(*args) for args in given]
    except Exception as error:
        return error


@pytest.mark.parametrize("part", range(4))
def test_random_programs_over_sizes(part: int, rng: np.random.Generator) -> None:
    start = int(rng.integers(1 << 30))
    for seed in range(start, start + PROGRAMS // 4):
        check_sizes(seed)


def check_sizes(seed: int) -> None:
    """One program over examples [1, n, 3]."""
    text = program(seed)
    rng = np.random.default_rng(seed)
    single = weft.jit.CompilationUnit(text).f
    dims = [(True, 4), (False, 3)]
    examples = draw(rng, COUNT, *dims)
    w = weft.from_numpy(rng.uniform(-0.6, 0.6, (3, 3))).requires_grad_()
    with weft.jit.optimized_execution(False):
        wanted = outcomes(single, [(e, w) for e in examples])
    assert isinstance(wanted, list), f"seed {seed}: {wanted}\n{text}"
    try:
        compare(batch(batch_size=COUNT)(single)(batch_of(examples, *dims), w), wanted, [*examples, w], rng)
    except Exception as error:
        raise AssertionError(f"seed {seed}\n{text}") from error


def test_random_programs_over_numbers(rng: np.random.Generator) -> None:
    start = int(rng.integers(1 << 30))
    for seed in range(start, start + PROGRAMS):
        check_numbers(seed)


def check_numbers(seed: int) -> None:
    """One program over examples [1, n] and numbers that all share."""
    text = program_of_numbers(seed)
    rng = np.random.default_rng(seed)
    single = weft.jit.CompilationUnit(text).f
    examples = draw(rng, COUNT, (True, 3))
    numbers = (float(np.round(rng.uniform(-3, 3), 2)), int(rng.integers(-3, 9)))
    with weft.jit.optimized_execution(False):
        wanted = outcomes(single, [(e, *numbers) for e in examples])
    batched = batch(batch_size=COUNT)(single)
    made = BatchTensor(examples, [True])
    if not isinstance(wanted, list):
        with pytest.raises(type(wanted)):
            batched(made, *numbers)
        return
    try:
        compare(batched(made, *numbers), wanted, examples, rng)
    except Exception as error:
        raise AssertionError(f"seed {seed}\n{text}") from error
