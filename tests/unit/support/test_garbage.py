"""Garbage collection held back while compiling is as the user left it afterwards."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

import weft
from weft.support.garbage import collection_held


@pytest.fixture(autouse=True)
def _collection_on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_is_off_within_and_on_after() -> None:
    with collection_held():
        assert not gc.isenabled()
        with collection_held():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_exception_gives_it_back() -> None:
    with pytest.raises(KeyError), collection_held():
        raise KeyError
    assert gc.isenabled()


def test_a_user_who_has_it_off_keeps_it_off() -> None:
    gc.disable()
    with collection_held():
        pass
    assert not gc.isenabled()


def test_the_last_of_overlapping_threads_gives_it_back() -> None:
    inside, may_leave = threading.Event(), threading.Event()

    def other() -> None:
        with collection_held():
            inside.set()
            may_leave.wait(30)

    thread = threading.Thread(target=other)
    with collection_held():
        thread.start()
        assert inside.wait(30)
    assert not gc.isenabled()
    may_leave.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_its_parents_threads() -> None:
    with collection_held():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert gc.isenabled()


def test_capture_runs_without_collections() -> None:
    starts: list[bool] = []

    def note(phase: str, info: dict[str, int]) -> None:
        starts.append(phase == "start")

    def grow(x: weft.Tensor) -> weft.Tensor:
        for _ in range(300):
            x = x * 1.01 + 0.5
        return x

    compiled = weft.compile(grow)
    gc.collect()
    gc.callbacks.append(note)
    try:
        compiled.entry_for((weft.ones(3),), {})
        during = sum(starts)
    finally:
        gc.callbacks.remove(note)
    assert during <= 1  # what piled up may be looked at once afterwards
    assert gc.isenabled()


def test_a_capture_that_fails_gives_it_back() -> None:
    @weft.compile
    def fails(x: weft.Tensor) -> weft.Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        fails(weft.ones(3))
    assert gc.isenabled()
