"""Random assignments to older objects: a hundred calls are as in eager mode, a failed call leaves no trace,
and captures are as many as structures."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.agree.assigned import Assigning, draw_assigning, structure, values
from tests.agree.width import TIMES

CALLS = 100


def agree(program: Assigning, rng: np.random.Generator, backend: str) -> None:
    """Compare a hundred calls, some of which fail."""
    (eager, mine), (function, theirs) = program.make(), program.make()
    compiled = weft.compile(function, backend=backend)
    structures = set()
    weft.counters.reset()
    old = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
    pairs = [[weft.from_numpy(v.copy()) for v in old] for _ in range(2)]
    for _ in range(CALLS):
        if rng.random() < 0.8:  # else the tensors of the call before, which state may show
            drawn = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
            pairs = [[weft.from_numpy(v.copy()) for v in drawn] for _ in range(2)]
        at = rng.integers(0, 3, size=3)
        structures.add(structure(mine, pairs[0]))
        if rng.random() < 0.1:
            before, held = values(theirs, pairs[1]), dict(vars(theirs["h"]))
            with pytest.raises(IndexError):
                compiled(*pairs[1], weft.tensor([0, 7, 1]))
            assert (
                values(theirs, pairs[1]) == before
                and all(vars(theirs["h"])[k] is v for k, v in held.items() if type(v) is weft.Tensor)
            )
        expected, found = eager(*pairs[0], weft.tensor(at)), compiled(*pairs[1], weft.tensor(at))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
        *facts, left = values(mine, pairs[0])
        *same, right = values(theirs, pairs[1])
        assert same == facts
        np.testing.assert_allclose(right, left, rtol=1e-4, atol=1e-5)
    assert weft.counters.captures <= len(structures) + 2, (weft.counters.captures, len(structures), compiled.misses)


@pytest.mark.parametrize(("backend", "count"), [("interpret", 6), ("llvm", 2)])
def test_assignments_agree(backend: str, count: int, rng: np.random.Generator) -> None:
    for length in rng.integers(2, 9, size=count * TIMES):
        program = draw_assigning(rng, int(length))
        try:
            agree(program, rng, backend)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n" + "\n".join(program.lines)) from error


def agree_in_parts(program: Assigning, rng: np.random.Generator) -> None:
    """Compare calls of a split function, which runs its Python and is cut where it asks."""
    (eager, mine), (function, theirs) = program.make(), program.make()
    split = weft.compile(function, split=True)
    pairs: list[list[weft.Tensor]] = []
    for _ in range(20):
        if not pairs or rng.random() < 0.8:  # else the tensors of the call before
            drawn = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
            pairs = [[weft.from_numpy(v.copy()) for v in drawn] for _ in range(2)]
        at = rng.integers(0, 3, size=3)
        expected, found = eager(*pairs[0], weft.tensor(at)), split(*pairs[1], weft.tensor(at))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
        *facts, left = values(mine, pairs[0])
        *same, right = values(theirs, pairs[1])
        assert same == facts
        np.testing.assert_allclose(right, left, rtol=1e-4, atol=1e-5)


def test_assignments_agree_in_split_functions(rng: np.random.Generator) -> None:
    for length in rng.integers(2, 9, size=3 * TIMES):
        program = draw_assigning(rng, int(length))
        try:
            agree_in_parts(program, rng)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n" + "\n".join(program.lines)) from error
