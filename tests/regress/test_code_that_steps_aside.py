"""Finalizers, callbacks and handlers that run while a step is captured: they run as in eager mode, and are no part of
the program."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft

SEEN: list[str] = []
double = weft.compile(lambda x: x * 2)


class Plain:
    """What can be referred to weakly."""


class Held:
    """An object with a finalizer."""

    def __del__(self) -> None:
        work("finalizer")


def work(name: str) -> None:
    """What such code may do: compiled functions, gradients, draws, values."""
    try:
        w = weft.full((2,), 3.0, requires_grad=True)
        (w * w).sum().backward()
        weft.rand(2).tolist()
        right = double(w.detach()).tolist() == w.grad.tolist() == [6.0, 6.0]
        SEEN.append(name if right else f"{name}: wrong values")
    except Exception as error:
        SEEN.append(f"{name}: {error}")


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    SEEN.clear()
    gc.disable()
    yield
    gc.enable()


def finalizer_of_a_cycle() -> None:
    held: Any = Held()
    held.me = held
    del held
    gc.collect()


def finalizer_of_a_local() -> None:
    held = Held()
    del held


def callback() -> None:
    held = Plain()
    reference = weakref.ref(held, lambda dead: work("callback"))
    del held
    assert reference() is None


@pytest.mark.parametrize(
    "happens", [finalizer_of_a_cycle, finalizer_of_a_local, callback], ids=lambda function: function.__name__
)
def test_it_runs_with_real_tensors(happens: Callable[[], None]) -> None:
    def step(x: Any) -> Any:
        y = x + 1
        happens()
        return y * 2

    compiled = weft.compile(step)
    assert compiled(weft.ones(2)).tolist() == [4.0, 4.0]
    assert SEEN and all(name in ("finalizer", "callback") for name in SEEN), SEEN
    assert compiled(weft.zeros(3)).tolist() == [2.0] * 3


def test_a_callback_of_gc() -> None:
    def collected(phase: str, info: dict[str, int]) -> None:
        work(phase)

    def step(x: Any) -> Any:
        gc.collect()
        return x + 1

    gc.callbacks.append(collected)
    try:
        assert weft.compile(step)(weft.ones(1)).item() == 2.0
    finally:
        gc.callbacks.remove(collected)
    assert SEEN == ["start", "stop"]


def test_what_it_changes_was_there_before() -> None:
    counts = {"n": 0}

    class Counting:
        def __del__(self) -> None:
            counts["n"] += 10

    holder: Any = Plain()

    def step(x: Any) -> Any:
        y = x * (1 + len(counts))
        holder.part = None
        return y

    holder.part = Counting()
    assert weft.compile(step)(weft.ones(1)).item() == 2.0
    assert counts["n"] in (0, 10)


@pytest.mark.skipif(not hasattr(signal, "raise_signal") or sys.platform == "win32", reason="needs SIGUSR1")
def test_a_signal_handler() -> None:
    assert threading.current_thread() is threading.main_thread()

    def handler(number: int, frame: Any) -> None:
        work("signal")

    def step(x: Any) -> Any:
        y = x + 1
        signal.raise_signal(signal.SIGUSR1)
        return y

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert weft.compile(step)(weft.ones(1)).item() == 2.0
        assert signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert SEEN == ["signal"]


def test_a_trace_function() -> None:
    def step(x: Any) -> Any:
        return x * 3

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code is step.__code__:
            work("trace")
            return tracer
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        value = weft.compile(step)(weft.ones(1)).item()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert value == 3.0 and set(SEEN) == {"trace"}
