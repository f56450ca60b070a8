"""Whether the user's code waits for an exception, on every Python: try and finally, loops, early returns, with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from weft.support.handlers import is_watched, outermost

asked: list[bool] = []


def ask() -> None:
    asked.append(is_watched())


def in_try() -> None:
    ask()
    try:
        ask()
    except ValueError:
        pass
    else:
        ask()
    ask()


def in_handler() -> None:
    try:
        raise ValueError
    except ValueError:
        ask()
    ask()


def in_finally() -> None:
    try:
        ask()
    finally:
        ask()


def in_with() -> None:
    with contextlib.nullcontext():
        ask()


def with_in_try() -> None:
    try:
        with contextlib.nullcontext():
            ask()
    except ValueError:
        pass


def in_loop() -> None:
    for i in range(2):
        try:
            if i:
                return
            ask()
        except ValueError:
            continue
        ask()


def after_early_return() -> None:
    for i in (0, 1):
        try:
            if i == 5:
                return
        except ValueError:
            return
    ask()


def with_in_with() -> None:
    with contextlib.nullcontext(), contextlib.nullcontext():
        ask()
    try:
        with contextlib.nullcontext(), contextlib.nullcontext():
            ask()
        ask()
    finally:
        ask()


def call(function: Callable[[], None]) -> None:
    function()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (in_try, [False, True, False, False]), (in_handler, [False, False]), (in_finally, [True, False]),
        (in_with, [False]), (with_in_try, [True]), (in_loop, [True, False]), (after_early_return, [False]),
        (with_in_with, [False, True, True, False]),
    ],
)
def test_where_an_exception_is_waited_for(function: Callable[[], None], expected: list[bool]) -> None:
    asked.clear()
    outermost.add(call.__code__)  # beyond it the test runner waits for exceptions
    try:
        call(function)
    finally:
        outermost.discard(call.__code__)
    assert asked == expected
