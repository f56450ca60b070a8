"""What `weft.explain` says of a loop over a size that is captured for each length: the line, and what to write."""

from __future__ import annotations

from typing import Any

import pytest

import weft


class Box:
    total: Any = 0.0


def a_branch(x: Any, h: Any) -> Any:
    for t in range(x.shape[0]):
        h = weft.tanh(h + x[t])
        if t % 10 == 0:
            h = h * 0.5
    return h


def an_attribute(x: Any, h: Any) -> Any:
    box = Box()
    for row in x:
        h = weft.tanh(h + row)
        box.total = box.total + h
    return h + box.total


def an_item(x: Any, h: Any) -> Any:
    factors = [0.5] * 99
    for t in range(x.shape[0]):
        h = weft.tanh(h + x[t])
        h = h * factors[t]
    return h


def a_count(x: Any, h: Any) -> Any:
    count = 0
    for row in x:
        h = weft.tanh(h + row) * 0.5
        count = count + 1
    return h * count


def the_index(x: Any, h: Any) -> Any:
    t = 0
    for t in range(x.shape[0]):
        h = weft.tanh(h + x[t]) * 0.5
    return h * t


def a_list(x: Any, h: Any) -> Any:
    path = []
    for t in range(x.shape[0]):
        h = weft.tanh(h + x[t]) * 0.5
        path.append(h)
    return h * len(path)


def a_break(x: Any, h: Any) -> Any:
    for t in range(x.shape[0]):
        h = weft.tanh(h + x[t]) * 0.5
        if x.shape[0] == 99:
            break
    return h


def a_break_that_is_taken(x: Any, h: Any) -> Any:
    for t in reversed(range(x.shape[0])):
        h = weft.tanh(h + x[t]) * 0.5
        if t == 1:
            break
    return h


def draws(x: Any, h: Any) -> Any:
    for t in range(x.shape[0]):
        h = weft.tanh(h + x[t]) * weft.rand(3)
    return h


@pytest.mark.parametrize(("function", "line", "text"), [
    (a_branch, 3, "weft.where"), (an_attribute, 4, "local name"), (an_item, 4, "make a tensor"),
    (a_count, None, "`count` is another value"), (the_index, None, "`t` is read behind the loop"),
    (a_list, None, "the list `path`"), (a_break, 3, "weft.where"), (a_break_that_is_taken, 3, "weft.where"),
    (draws, None, "do not call the same operators"),
])  # fmt: skip
def test_the_reason(function: Any, line: int | None, text: str) -> None:
    step = weft.compile(function)
    x, h = weft.randn(20, 3), weft.randn(3)
    step(x, h)
    (note,) = [n for n in weft.explain(step, x, h).programs[0].loops if "over a size" in n]
    first = function.__code__.co_firstlineno
    assert text in note and "its 20 iterations alone" in note
    assert line is None or f"line {first + line} " in note, note
    assert note.startswith("test_loops_of_one_length.py:")


def test_a_loop_of_all_lengths_has_none() -> None:
    @weft.compile
    def step(x: Any, h: Any) -> Any:
        for t in range(x.shape[0]):
            h = weft.tanh(h + x[t]) * 0.5
        return h

    x, h = weft.randn(20, 3), weft.randn(3)
    step(x, h)
    assert not any("over a size" in note for note in weft.explain(step, x, h).programs[0].loops)
