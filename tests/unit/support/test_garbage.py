"""Garbage collection held back while compiling is as the user left it afterwards."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest

import weft
from weft.support.garbage import MANY, collection_held


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


def _alone(program: str) -> None:
    """Run it in a process of its own, where nothing is frozen and few objects are old."""
    subprocess.run([sys.executable, "-c", _CYCLE + textwrap.dedent(program)], check=True)


_CYCLE = """
import gc, weakref
from weft.support.garbage import IN_A_ROW, MANY, collection_held

class Cycle:
    def __init__(self):
        self.self = self

gc.collect()
"""


def test_what_grew_is_not_walked_as_young_objects() -> None:
    """Many objects are old at once; a cycle among them that nobody holds is found by the next walk of old ones."""
    _alone("""
        collections = []
        gc.callbacks.append(lambda phase, info: collections.append(info["generation"]))
        with collection_held():
            held = [[i] for i in range(MANY + 1)]
            cycle = Cycle()
            gone = weakref.ref(cycle)
            del cycle
        made = [[] for _ in range(10)]
        assert not collections and gc.get_count()[0] < MANY and gone() is not None
        gc.collect()
        assert gone() is None and len(held) > len(made)
    """)


def test_aging_is_not_repeated_for_ever() -> None:
    """Cycles of one capture after the other are collected, though each capture makes its objects old."""
    _alone("""
        seen = []
        for _ in range(IN_A_ROW + 2):
            with collection_held():
                held = [[i] for i in range(MANY + 1)]
                seen.append(weakref.ref(Cycle()))
            del held
            more = [[i] for i in range(2000)]  # the collector's turn, if it is to have one
            del more
        assert any(ref() is None for ref in seen)
    """)


def test_what_the_user_froze_stays_frozen() -> None:
    """Frozen objects are in no generation; how many there are says nothing, as some die of themselves meanwhile."""
    mine = [[i] for i in range(10)]
    gc.freeze()
    with collection_held():
        held = [[i] for i in range(MANY + 1)]
    tracked = {id(each) for each in gc.get_objects()}
    assert held and not tracked & {id(each) for each in mine}
