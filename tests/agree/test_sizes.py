"""Programs all of whose sizes are symbols give, natively and interpreted, what tensors give one operator at a time:
for the example and for every other size that the guards admit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.agree.draw_sizes import draw
from tests.agree.size_programs import Program, Sizes
from tests.agree.width import times
from weft.programs.executable import make_executable
from weft.programs.shape_check import shape_check
from weft.support.errors import StateError, WeftError

IN_A_TEST = 10
OTHERS = 4  # sizes besides the example's


def admitted(program: Program, holds: Any) -> list[Sizes]:
    """The example, and other sizes that the guards admit: renamed example sizes, and some drawn anew."""
    rng = np.random.default_rng([program.seed, 5])
    found = [program.example]
    for attempt in range(60):
        new = {n: int(rng.choice([0, 1, 2, 3, 4, 6, 17])) for n in range(-5, 30)}
        kept = set(rng.choice(range(-5, 30), 12).tolist()) if attempt % 2 else set()

        def other(n: int, new: dict[int, int] = new, kept: set[int] = kept, alone: float = 0.2) -> int:
            if n in kept or n not in new:
                return n
            return new[n] if rng.random() > alone else int(rng.integers(0, 5))

        sizes = Sizes(
            tuple(tuple(map(other, shape)) for shape in program.example.shapes),
            tuple(other(n) if rng.random() < 0.5 else n for n in program.example.numbers),
        )
        if sizes not in found and holds(sizes):
            found.append(sizes)
            if len(found) > OTHERS:
                break
    return found


def difference(program: Program, placed: Callable[[Any], Any] = np.array) -> str | None:
    """What a back end gives otherwise than tensors do, or None. placed: puts each input where native code reads it."""
    graph, symbols = program.graph()
    runs = {"native": make_executable(graph, "llvm"), "interpreted": make_executable(graph, "interpret")}
    check, names = shape_check(graph.env)
    for sizes in admitted(program, lambda s: _holds(check, names, symbols(s))):
        is_certain = True
        try:
            expected: Any = program.expected(sizes)
        except IndexError as error:  # what nobody reads is not looked up in a graph
            expected, is_certain = error, False
        except StateError:  # elements written more than once: a graph has no order to refuse
            continue
        except (WeftError, ValueError) as error:
            if "view size is not compatible" in str(error):  # it asks how tensors lie: a graph has values
                continue
            expected = error
        for name, executable in runs.items():
            try:
                found: Any = executable.run([placed(x) for x in program.arrays(sizes)], symbols(sizes))
            except WeftError as error:
                found = error
            text = _unlike(found, expected)
            if text is not None and is_certain:
                return f"{name}, with {sizes}: {text}"
    return None


def _holds(check: Any, names: Any, symbols: dict[str, int]) -> bool:
    try:
        return bool(check(*[symbols[n] for n in names]))
    except ZeroDivisionError:
        return False


def _unlike(found: Any, expected: Any) -> str | None:
    if isinstance(expected, Exception) or isinstance(found, Exception):
        both = isinstance(expected, Exception) and isinstance(found, Exception)
        return None if both else f"{found!r} instead of {expected!r}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        a = np.asarray(a)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        if not np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True):
            return f"result {i} is\n{a}\ninstead of\n{b}"
    return None


def outcome(program: Program, placed: Callable[[Any], Any] = np.array) -> str | None:
    """The difference, or what was raised on the way to it."""
    try:
        return difference(program, placed)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


def shrunk(program: Program) -> tuple[Program, str]:
    """A smaller program that differs too, and how."""
    text = outcome(program)
    assert text is not None
    at = len(program.statements) - 1
    while at >= 0:
        smaller = program.without(at)
        found = outcome(smaller) if smaller is not None and _runs(smaller) else None
        if smaller is not None and found is not None:
            program, text = smaller, found
        at = min(at, len(program.statements)) - 1
    return program, text


def _runs(program: Program) -> bool:
    try:
        program.expected(program.example)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("first", range(0, times(60), IN_A_TEST))
def test_every_size_that_the_guards_admit(first: int) -> None:
    for seed in range(first, first + IN_A_TEST):
        program = draw(seed)
        if outcome(program) is not None:
            smallest, text = shrunk(program)
            pytest.fail(f"program {seed}: {text}\n{smallest}")
