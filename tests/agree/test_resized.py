"""Random programs that give tensors other sizes and other memory: one answer in every mode, that of a model of
PyTorch's storages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
import weft.lazy.inline.writer as writer
from tests.agree.resized import Drawn, draw, made
from tests.agree.test_alias_programs import MODES as ALL_MODES
from tests.agree.test_alias_programs import OnLazy
from tests.agree.width import times
from weft.support.errors import CaptureError
from weft.support.knobs import knobs

COUNT = times(16)
MODES = [mode for mode in ALL_MODES if mode not in ("lazy_native", "split_cuts", "split_native")]
INSIDE = ("compile", "native")  # a program does not give its arguments other memory


def _same(found: Any, wanted: np.ndarray | None) -> bool:
    return wanted is None or (found.shape == wanted.shape and bool((found.numpy() == wanted).all()))


def is_inside(program: Drawn, mode: str) -> bool:
    """Whether the program makes the bases itself."""
    return mode in INSIDE or program.seed % 2 == 0


def difference(program: Drawn, mode: str) -> str | None:
    """What differs from the model, or None."""
    is_lazy = mode.startswith("lazy")
    scope: dict[str, Any] = {"weft": OnLazy() if is_lazy else weft}
    ends = np.random.default_rng(program.seed).random(100) < 0.3
    source = program.source(
        is_inside(program, mode), lambda step: "weft.lazy.mark_step()" if mode == "lazy_steps" and ends[step] else ""
    )
    exec(source, scope)
    bases = [] if is_inside(program, mode) else [eval(made(dims), scope) for dims in program.bases]
    try:
        left, seen = ALL_MODES[mode](scope["program"])(*bases)
    except CaptureError as error:  # a program does not repeat what Python asks of a storage
        if mode in INSIDE and "a storage" in str(error):
            return None
        raise
    for at, (row, wanted) in enumerate(zip(seen, program.seen, strict=True)):
        for found, (name, array) in zip(row, wanted.items(), strict=True):
            if not _same(found, array):
                return f"after {program.lines[at]}, {name} is {found}, should be {array}\n{source}"
    for found, (name, array) in zip(left, program.seen[-1].items(), strict=True):
        if not _same(found, array):
            return f"at the end {name} is {found}, should be {array}\n{source}"
    for i, (found, wanted) in enumerate(zip(bases, program.memories, strict=False)):
        if not _same(found, wanted):
            return f"argument {i} is {found}, should be {wanted}\n{source}"
    return None


@pytest.fixture
def backend(mode: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lazy tensors are computed node by node."""
    if mode in ("lazy", "lazy_steps", "split"):
        monkeypatch.setattr(knobs, "backend", "interpret")
    monkeypatch.setattr(writer, "SEEN", 1)  # what a second run meets is an inline cache
    yield
    if mode.startswith("lazy"):
        weft.lazy.reset()


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("mode", MODES)
def test_tensors_hold_what_the_model_holds(mode: str, rng: np.random.Generator) -> None:
    for seed in rng.integers(2**31, size=COUNT // 4 if mode == "native" else COUNT).tolist():
        program = draw(seed, asks_storages=mode not in INSIDE or seed % 4 == 0)
        try:
            found = difference(program, mode)
        except Exception as problem:
            raise AssertionError(f"program {seed}: {problem}\n{program.source(is_inside(program, mode))}") from problem
        assert found is None, f"program {seed}: {found}"
