"""Random training programs: eager mode gives PyTorch's stored numbers, and the compiled step gives those of eager mode.

scripts/make_torch_steps.py stored 3,000 programs. A run of the suite takes some of them; WEFT_TRAINING=3000 takes them
all (`./dev sweep` does). A failure shows the program; shrink it by hand and keep it as a case of tests/regress.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from tests.training.draw import draw
from tests.training.running import agrees, run

STORED = Path(__file__).parent / "data" / "torch_steps.npz"
COUNT = int(os.environ.get("WEFT_TRAINING", "8"))
PARTS = max(4, COUNT // 40)
SPLIT = (
    ("split", partial(weft.compile, split=True, backend="interpret")),
    ("deferred", partial(deferred, backend="interpret")),
)


def epoch(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Three steps as one function."""

    def steps(x: Any, y: Any) -> Any:
        for _ in range(2):
            step(x, y)
        return step(x, y)

    return steps


EPOCHS = (
    ("a compiled epoch", lambda step: weft.compile(epoch(step))),
    ("a split epoch", lambda step: weft.compile(epoch(step), split=True, backend="interpret")),
    ("a deferred epoch", lambda step: deferred(epoch(step), backend="interpret")),
)


@pytest.fixture(scope="module")
def stored() -> dict[int, np.ndarray]:
    """For each seed, the losses of PyTorch's calls and two numbers of its tensors at the end."""
    with np.load(STORED) as file:
        return dict(zip(file["seeds"].tolist(), file["summaries"], strict=True))


@pytest.mark.parametrize("part", range(PARTS))
def test_programs(stored: dict[int, np.ndarray], rng: np.random.Generator, part: int) -> None:
    """Eager mode against PyTorch's numbers, compiled steps against eager mode."""
    seeds = sorted(stored) if len(stored) <= COUNT else rng.permutation(sorted(stored))[: COUNT // PARTS].tolist()
    for seed in seeds[part::PARTS] if len(stored) <= COUNT else seeds:
        check(seed, stored[seed])


def check(seed: int, summary: np.ndarray) -> None:
    program = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = run(program, weft)
        assert agrees(eager, summary, program.dtype), (
            f"eager gives {eager.summary()}, PyTorch {summary}\n{program.text()}"
        )
        for name, wrap in (("compiled", weft.compile), *(SPLIT if seed % 4 == 0 else ())):
            problem = run(program, weft, wrap).difference(eager, program.dtype)
            assert problem is None, f"{name} and eager differ: {problem}\n{program.text()}"
        if seed % 3 == 0:
            eager = run(program, weft, epoch)
            for name, wrap in EPOCHS:
                problem = run(program, weft, wrap).difference(eager, program.dtype)
                assert problem is None, f"{name} and an eager one differ: {problem}\n{program.text()}"


def test_the_comparison_sees_a_difference(stored: dict[int, np.ndarray]) -> None:
    """One changed loss, or one changed tensor, is noticed."""
    seed = next(s for s in sorted(stored) if draw(s).dtype == "float64")
    first, second = run(draw(seed), weft), run(draw(seed), weft)
    assert first.difference(second, "float64") is None and agrees(second, stored[seed], "float64")
    name = sorted(second.tensors)[-1]
    second.tensors[name] = second.tensors[name] + 1e-3
    assert first.difference(second, "float64") is not None and not agrees(second, stored[seed], "float64")
