"""A capture that failed was tried once more for each number that it took as an input, all of it each time; and what a
step does in its first line was said when all of it had been recorded.
"""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.compile.tracing import trace
from weft.ir.builder import Builder
from weft.support.errors import CaptureError


class Holder:
    """Numbers and objects outside of a step."""

    def __init__(self, **numbers: Any) -> None:
        self.__dict__.update(numbers)


def _counted(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """How many captures begin, and how many nodes they record."""
    captures, nodes = [0], [0]
    record, emit = trace.trace_program, Builder.emit

    def trace_program(*args: Any) -> Any:
        captures[0] += 1
        return record(*args)

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        nodes[0] += 1
        return emit(self, *args, **options)

    monkeypatch.setattr(trace, "trace_program", trace_program)
    monkeypatch.setattr(Builder, "emit", counted)
    return captures, nodes


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_a_failing_capture_is_tried_once_more_however_many_numbers_it_takes(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Holder(**{f"n{i}": i + 1.5 for i in range(count)})

    @weft.compile
    def step(x: Any, fails: bool) -> Any:
        for i in range(count):
            x = x * getattr(held, f"n{i}")
        if fails:
            held.made = Holder()
        return x

    for by in range(3):
        for i in range(count):
            setattr(held, f"n{i}", i + 1.5 + by)
        step(weft.ones(2), False)
    assert len(step.assumptions.lifted) == count
    captures, _ = _counted(monkeypatch)
    with pytest.raises(CaptureError, match="an object of type Holder made in this call"):
        step(weft.ones(2), True)
    assert captures == [2]
    assert len(step.assumptions.lifted) == count


def _strict(k: float) -> float:
    return float.fromhex(float.hex(k))  # (a TypeError for what is no float)


def test_a_number_that_code_takes_as_it_is_leaves_the_others_inputs() -> None:
    held = Holder(a=1.5, b=3.5, c=2.5)

    def step(x: Any) -> Any:
        return x * held.a * held.c + _strict(held.b)

    compiled = weft.compile(step)
    for by in range(4):
        held.a, held.b, held.c = 1.5 + by, 3.5 + by // 3, 2.5 * (by + 1)
        assert compiled(weft.ones(2)).tolist() == pytest.approx(step(weft.ones(2)).tolist())
    assert len(compiled.assumptions.fixed) == 1
    assert len(compiled.assumptions.lifted) == 2


def test_another_default_dtype_is_found_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(x: Any) -> Any:
        weft.set_default_dtype(weft.float64)
        try:
            made = weft.ones(2)
            for _ in range(50):
                x = x * made + 1
        finally:
            weft.set_default_dtype(weft.float32)
        return x

    compiled = weft.compile(step)
    captures, nodes = _counted(monkeypatch)
    for _ in range(3):
        assert compiled(weft.ones(2)).dtype is weft.float64
        assert weft.get_default_dtype() is weft.float32
    assert captures == [1]
    assert nodes[0] < 50
    assert "test_retries_after_failed_capture.py" in compiled.misses[0]
    assert "changes the default dtype" in compiled.misses[0]


def test_numbers_of_arguments_and_of_state_that_change_together_are_inputs_together() -> None:
    held = Holder(a=1.5, b=2.5)

    @weft.compile
    def step(x: Any, k: float, ks: list[float]) -> Any:
        return x * held.a * k + held.b * ks[0]

    weft.counters.reset()
    for by in range(5):
        held.a, held.b = 1.5 + by, 2.5 + by
        assert step(weft.ones(1), 0.5 + by, [3.5 + by]).item() == pytest.approx(
            (1.5 + by) * (0.5 + by) + (2.5 + by) * (3.5 + by)
        )
    assert weft.counters.captures == 2
