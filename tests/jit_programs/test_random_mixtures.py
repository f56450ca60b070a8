"""Random programs of numbers, containers and written tensors (random_mixtures.py): what plain Python gives, they give
interpreted, with loops as machine code, by their plans, captured, traced, deferred, and stored.

TEST_MIXED=2000 tests so many.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import weft
import weft.jit
from tests.conftest import SEED
from tests.jit_programs.orders import agree, orders_of
from tests.jit_programs.random_mixtures import kept_lists, program
from tests.jit_programs.test_programs import INTERPRETED
from weft.jit.interpreter.hot import compiled_after

COUNT = int(os.environ.get("TEST_MIXED", "32"))


def arguments(seed: int, which: int):
    rng = np.random.default_rng([seed, which])
    x = weft.from_numpy(rng.uniform(-1, 1, 3))
    return [x, int(rng.integers(7)), float(np.round(rng.uniform(-1, 1), 3))]


def cases(part: int, count: int):
    start = int(np.random.default_rng([SEED, 500 + part]).integers(1 << 30))
    for seed in range(start, start + count):
        text = program(seed)
        space = {"weft": weft, "Tensor": weft.Tensor}
        exec(text, space)
        space["wrapped"] = lambda n: (n + (1 << 63)) % (1 << 64) - (1 << 63)
        plain, scripted = space["f"], weft.jit.CompilationUnit(text).f
        yield seed, scripted, [(arguments(seed, i), orders_of(plain, arguments(seed, i))) for i in range(2)], text


def compare(function, tries, text: str) -> None:
    for args, wanted in tries:
        found = orders_of(function, args)
        assert found.refused or agree(wanted, found, exact=False), f"{args}\n{text}"


@pytest.mark.parametrize("part", range(4))
def test_interpreted_and_with_native_loops(part: int) -> None:
    for _, scripted, tries, text in cases(part, COUNT // 4):
        for steps in (INTERPRETED, 1):
            with compiled_after(steps, INTERPRETED):
                compare(scripted, tries, text)


def test_lists_kept_beside_loops() -> None:
    start = int(np.random.default_rng([SEED, 506]).integers(1 << 30))
    for seed in range(start, start + COUNT // 2):
        text = kept_lists(seed)
        space = {"weft": weft, "Tensor": weft.Tensor}
        exec(text, space)
        scripted = weft.jit.CompilationUnit(text).f
        for i in range(4):
            args = arguments(seed, i)
            wanted, found = (orders_of(function, args, most=1) for function in (space["f"], scripted))
            if any(type(g) is str for gradients in wanted.gradients for g in gradients):
                wanted.gradients = found.gradients = []  # (eager mode refuses what was written: docs/differences.md)
            assert agree(wanted, found, exact=False), f"{args}\n{text}"


def test_by_their_plans_and_captured() -> None:
    for _, scripted, tries, text in cases(4, COUNT // 32):
        with compiled_after(0, 0):
            compare(scripted, tries, text)
        compare(weft.compile(scripted), tries, text)


def test_deferred_traced_and_stored(tmp_path) -> None:
    for seed, scripted, tries, text in cases(5, max(2, COUNT // 8)):
        weft.jit.save(scripted, tmp_path / str(seed))
        loaded = weft.jit.load(tmp_path / str(seed))
        compare(loaded, tries, text)
        with compiled_after(INTERPRETED, INTERPRETED):
            (x, k, s), wanted = tries[0]
            found = scripted(x.to("lazy"), k, s) if isinstance(wanted.results, tuple) else None
            if found is not None:
                assert agree(wanted.results[2], found[2].to("cpu").detach(), exact=False), text
                traced = weft.jit.trace(lambda x, f=scripted, k=k, s=s: f(x, k, s)[2:4], (x,), check_trace=False)
                assert agree(wanted.results[2:4], traced(x), exact=False), text
