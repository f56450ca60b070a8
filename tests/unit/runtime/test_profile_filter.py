"""The native filter of profile events: what it drops, what it tells, and that an error of the hook is Python's."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from weft.codegen.native import profile_filter
from weft.runtime.profile_filter import can_filter

pytestmark = pytest.mark.skipif(not can_filter(), reason="an interpreter without the C-API")


def inner(x: Any) -> Any:
    return x


def outer(x: Any) -> Any:
    return inner(len([x]))


class Events:
    """A profile function that takes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, Any]] = []

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        name = frame.f_code.co_name
        if name in ("inner", "outer"):
            self.told.append((name, event, getattr(arg, "__name__", arg)))


@pytest.fixture
def events() -> Iterator[Events]:
    hook = Events()
    yield hook
    sys.setprofile(None)


def told(hook: Events, *left_out: object, watches_all: bool = False) -> list[tuple[str, str, Any]]:
    filtered = profile_filter(hook)
    assert filtered is not None
    for thing in left_out:
        filtered.leave_out(thing)
    filtered.watches_all = watches_all
    filtered.install()
    assert sys.getprofile() is hook
    outer("x")
    sys.setprofile(None)
    filtered.close()
    return hook.told


ALL = [("outer", "call", None), ("outer", "c_call", "len"), ("inner", "call", None), ("inner", "return", 1),
       ("outer", "return", 1)]  # fmt: skip


def test_it_tells_what_is_not_left_out(events: Events) -> None:
    assert told(events) == ALL


def test_frames_of_a_code_are_left_out(events: Events) -> None:
    assert told(events, inner.__code__) == [e for e in ALL if e[:2] != ("inner", "call")]


def test_so_are_results_of_a_class(events: Events) -> None:
    assert told(events, inner.__code__, int) == [e for e in ALL if e[0] != "inner"]


def test_it_drops_nothing_where_all_is_wanted(events: Events) -> None:
    assert told(events, inner.__code__, int, watches_all=True) == ALL


def test_an_error_of_the_hook_is_raised_and_ends_it() -> None:
    def hook(frame: Any, event: str, arg: Any) -> None:
        if frame.f_code is inner.__code__:
            raise LookupError("refused")

    filtered = profile_filter(hook)
    assert filtered is not None
    filtered.install()
    with pytest.raises(LookupError, match="refused"):
        outer(1)
    assert sys.getprofile() is None
    filtered.close()


def test_threads_have_filters_of_their_own(events: Events) -> None:
    others: list[Any] = []
    thread = threading.Thread(target=lambda: others.append(told(Events(), inner.__code__)))
    filtered = profile_filter(events)
    assert filtered is not None
    filtered.install()
    thread.start()
    thread.join()
    outer("x")
    sys.setprofile(None)
    filtered.close()
    assert events.told == ALL
    assert others == [[e for e in ALL if e[:2] != ("inner", "call")]]


def test_a_closed_filter_tells_nothing(events: Events) -> None:
    filtered = profile_filter(events)
    assert filtered is not None
    filtered.close()
    filtered.install()
    outer("x")
    assert events.told == []


def test_many_codes(events: Events) -> None:
    filtered = profile_filter(events)
    assert filtered is not None
    codes = [compile(f"x = {i}", f"<{i}>", "exec") for i in range(3000)]
    for code in [*codes, inner.__code__, *codes]:
        filtered.leave_out(code)
    filtered.install()
    outer("x")
    sys.setprofile(None)
    filtered.close()
    assert [e for e in events.told if e[:2] == ("inner", "call")] == []
