"""The programs of one compiled function: in which order they are asked, which one goes, and what a miss says."""

from __future__ import annotations

import threading

import pytest

import weft
from weft.programs import store
from weft.support import limits


def named(x: weft.Tensor, name: str) -> weft.Tensor:
    return x + len(name)


def test_the_program_that_was_not_used_for_the_longest_time_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROGRAMS_OF_A_FUNCTION", 3)
    f, x = weft.compile(named), weft.ones(2)
    for name in ("a", "b", "c"):
        f(x, name)
    f(x, "a")
    before = weft.counters.captures
    f(x, "d")  # b goes
    f(x, "a")
    f(x, "c")
    assert len(f.entries) == 3 and weft.counters.captures == before + 1
    f(x, "b")
    assert len(f.entries) == 3 and weft.counters.captures == before + 2


def test_calls_of_several_ranks_write_no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    f = weft.compile(lambda x: x * 2)
    inputs = [weft.ones(3), weft.ones(3, 2), weft.ones(3, 2, 2)]
    for x in inputs:
        f(x)
    assert len(f.misses) == 2
    assert "argument x was a Tensor[float32, 1 dims], is now a Tensor[float32, 2 dims]" in f.misses[0]
    monkeypatch.setattr(store.Miss, "text", property(lambda miss: pytest.fail("nobody reads it")))
    for x in inputs * 2:
        assert f(x).tolist() == (x * 2).tolist()
    assert len(f.entries) == 3


def test_a_call_of_sizes_that_do_not_fit_is_told_both() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return x + 1 if x.shape[0] > 4 else x

    g = weft.compile(f)
    g(weft.ones(3))
    g(weft.ones(8))
    assert "was 3, is now 8" in g.misses[-1]


def test_threads_capture_a_call_once() -> None:
    f, x = weft.compile(named), weft.ones(2)
    before = weft.counters.captures
    barrier, results = threading.Barrier(4), []

    def call() -> None:
        barrier.wait()
        for name in ("a", "bb", "a", "ccc", "bb"):
            results.append(f(x, name).tolist() == [1.0 + len(name)] * 2)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20 and all(results)
    assert weft.counters.captures == before + 3 and len(f.entries) == 3
