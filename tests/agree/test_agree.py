"""THE property test: a random program gives one answer in NumPy, eager, captured and interpreted, printed and parsed
again, and in native code.

Programs, sizes, layouts and values are drawn anew in every run (WEFT_TEST_SEED repeats one);
WEFT_AGREE=20 runs twenty times as many. A failure is shrunk and shown as source; keep it as a case of tests/regress.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import weft
import weft.lazy.inline.writer as writer
from tests.agree.generate import Program, draw_program
from tests.agree.running import Skip, check, shrink
from tests.agree.width import times

INTERPRETED = ("eager", "interpret", "split interpret")
NATIVE = ("eager", "numpy", "llvm", "split llvm")


def agree(program: Program, modes: Sequence[str]) -> bool:
    """Whether there was something to compare; fails with the shrunk program."""
    try:
        check(program, modes)
    except Skip:
        return False
    except Exception as error:
        small, problem = shrink(program, error, modes)
        text = (
            f"seed {program.seed}, arguments {small.arguments}, state {small.state}, {small.dtype}\n"
            f"{small.source('weft')}"
        )
        raise AssertionError(f"{type(problem).__name__}: {problem}\n{text}") from error
    return True


def several(
    rng: np.random.Generator, count: int, modes: Sequence[str], wants_grad: bool, length: int, dtype: str = "float64"
) -> None:
    """Check as many programs; most of them must say something."""
    seeds = [int(s) for s in rng.integers(2**31, size=times(count))]
    said = [agree(draw_program(s, wants_grad, length, dtype), modes) for s in seeds]
    assert sum(said) >= len(said) // 2


@pytest.mark.parametrize("length", [4, 10, 20])
def test_values_captured_and_interpreted(rng: np.random.Generator, length: int) -> None:
    """Views, writes and reductions; every stage printed, parsed and interpreted."""
    several(rng, 20, INTERPRETED, False, length)


@pytest.fixture
def lazy_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inline caches are written the first time; nothing stays."""
    monkeypatch.setattr(writer, "SEEN", 1)
    yield
    weft.lazy.reset()


@pytest.mark.usefixtures("lazy_device")
@pytest.mark.parametrize("wants_grad", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("length", [5, 12])
def test_lazy_steps(rng: np.random.Generator, length: int, wants_grad: bool) -> None:
    """Lazy tensors, in steps that come again with other values."""
    several(rng, 16, ("eager", "lazy interpret"), wants_grad, length)


@pytest.mark.usefixtures("lazy_device")
def test_lazy_steps_native(rng: np.random.Generator) -> None:
    """The same in native code."""
    several(rng, 5, ("eager", "lazy llvm"), True, 6)


@pytest.mark.parametrize("length", [6, 14])
def test_values_native(rng: np.random.Generator, length: int) -> None:
    """The same through the NumPy back end and LLVM."""
    several(rng, 8, NATIVE, False, length)


def test_values_in_single_precision(rng: np.random.Generator) -> None:
    """float32, where a promotion to float64 would show."""
    several(rng, 8, (*INTERPRETED, "llvm"), False, 10, "float32")


@pytest.mark.parametrize("length", [4, 12])
def test_gradients_captured_and_interpreted(rng: np.random.Generator, length: int) -> None:
    """Whole steps: forward, backward through views and writes, updates without grad, `.grad` kept, cleared, zeroed."""
    several(rng, 12, INTERPRETED, True, length)


def test_gradients_native(rng: np.random.Generator) -> None:
    """The same steps as native programs."""
    several(rng, 8, NATIVE, True, 10)
