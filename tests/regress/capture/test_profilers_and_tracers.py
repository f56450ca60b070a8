"""The user's own profiler, tracer and coverage see a call that is captured as they see any other,
and are as they were behind it."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import weft
from weft import Tensor


def helper(x: Tensor) -> Tensor:
    return x * 2


def step(x: Tensor) -> Tensor:
    total = helper(x)
    for _ in range(3):
        total = total + helper(x)
    return total.abs()


def profiled(run: Callable[[Tensor], Tensor]) -> Counter[str]:
    """The events of this file's code, by function."""
    seen: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("helper", "step"):
            seen[f"{frame.f_code.co_name} {event} {getattr(arg, '__name__', '')}"] += 1

    x = weft.ones(3)
    sys.setprofile(profile)
    try:
        run(x)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    return seen


def test_a_profile_function_counts_the_calls_of_a_capture() -> None:
    seen = profiled(weft.compile(step, backend="interpret"))
    assert seen["helper call "] == 4 and seen == profiled(step)


def test_a_profile_function_sees_a_backward() -> None:
    def double(gradient: Tensor) -> Tensor:
        return gradient * 2

    def loss(x: Tensor) -> Tensor:
        y = x * 3
        y.register_hook(double)
        y.sum().backward()
        return y

    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        calls[frame.f_code.co_name] += event == "call"

    x = weft.ones(3, requires_grad=True)
    sys.setprofile(profile)
    try:
        weft.compile(loss, backend="interpret")(x)
    finally:
        sys.setprofile(None)
    assert calls["double"] == 1 and calls["loss"] == 1


def test_a_tracer_sees_the_lines_of_a_capture() -> None:
    def lines_of(run: Callable[[Tensor], Tensor]) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            if frame.f_code not in (helper.__code__, step.__code__):
                return None
            if event == "line":
                seen.append((frame.f_code.co_name, frame.f_lineno))
            return trace

        before, x = sys.gettrace(), weft.ones(3)
        sys.settrace(trace)
        try:
            run(x)
            assert sys.gettrace() is trace
        finally:
            sys.settrace(before)
        return seen

    seen = lines_of(weft.compile(step, backend="interpret"))
    assert len(seen) > 10 and seen == lines_of(step)


def test_a_profiler_in_c_goes_on_behind_a_capture() -> None:
    compiled, x = weft.compile(step, backend="interpret"), weft.ones(3)
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        compiled(x)
        for _ in range(5):
            helper(x)
    finally:
        profiler.disable()
    stats: Any = pstats.Stats(profiler)
    (calls,) = [entry[1] for (file, _, name), entry in stats.stats.items() if file == __file__ and name == "helper"]
    assert calls >= 5


def test_what_is_watched_stays_watched_under_a_profile_function() -> None:
    state = {"k": 2.0}
    compiled = weft.compile(lambda x: x * state["k"], backend="interpret")
    sys.setprofile(lambda frame, event, arg: None)
    try:
        assert compiled(weft.ones(1)).item() == 2
        state["k"] = 5.0
        assert compiled(weft.ones(1)).item() == 5
    finally:
        sys.setprofile(None)


def test_setting_a_profile_function_inside_is_refused() -> None:
    def starts(x: Tensor) -> Tensor:
        sys.setprofile(None)
        return x * 2

    with pytest.raises(weft.WeftError, match=r"test_profilers_and_tracers.py:\d+ sets a profile function"):
        weft.compile(starts, backend="interpret")(weft.ones(1))
