"""Loops over a size that write in place: one program for every length, where what is written moves with the index."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.unit.compile.test_loop_lengths import LONG, SHORT, programs


def path_of_a_state(x: Any, h: Any, w: Any) -> Any:
    path, place = weft.zeros(x.shape[0], 3, dtype=x.dtype), h.clone()
    for t in range(x.shape[0]):
        place += 0.1 * weft.tanh(place.clone() * w + x[t])
        path[t] = place
    return path, place


def columns_from_the_end(x: Any, h: Any, w: Any) -> Any:
    n = x.shape[0]
    path = weft.zeros(3, n, dtype=x.dtype)
    for t in range(n):
        h = weft.tanh(h * w + x[t])
        path[:, n - 1 - t] = h
    return path, h


def rows_behind_a_start(x: Any, h: Any, w: Any) -> Any:
    path = weft.zeros(len(x) + 1, 3, dtype=x.dtype)
    path[0] = h
    for t, row in enumerate(x):
        h = weft.tanh(h * w + row)
        path[t + 1] = h
    return path, path[1:] * 2


def two_writes_of_a_state(x: Any, h: Any, w: Any) -> Any:
    moment = h * w
    for row in x:
        moment.mul_(0.9).add_(weft.sin(moment.clone()) * row)
    return moment


def without_a_gradient(x: Any, h: Any, w: Any) -> Any:
    mean = weft.zeros_like(h)
    with weft.no_grad():
        for row in x:
            mean *= 0.9
            mean += 0.1 * row
    return mean, h * w


def counting_down(x: Any, h: Any, w: Any) -> Any:
    path = weft.zeros(x.shape[0], 3, dtype=x.dtype)
    for t in reversed(range(x.shape[0])):
        h = weft.tanh(h * w + x[t])
        path[t] = h
    return path, h


def numbers_of_the_index(x: Any, h: Any, w: Any) -> Any:
    state = h * w
    for t in range(len(x)):
        state += x[t] * (0.1 * t)
    return state


ONE = [
    path_of_a_state, columns_from_the_end, rows_behind_a_start, two_writes_of_a_state, without_a_gradient,
    counting_down, numbers_of_the_index,
]  # fmt: skip


def at_a_place_that_is_computed(x: Any, h: Any, w: Any) -> Any:
    path = weft.zeros(x.shape[0], 3, dtype=x.dtype)
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t])
        path[t // 2] = h
    return path


def a_list_that_grows(x: Any, h: Any, w: Any) -> Any:
    kept = [h]
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t])
        kept += [h]
    return kept[3] * len(kept)


@pytest.mark.parametrize("function", ONE)
def test_one_program_for_every_length(function: Any) -> None:
    assert programs(function, LONG) == 1
    assert programs(function, (*LONG, *SHORT)) <= 1 + len(SHORT)


@pytest.mark.parametrize("function", [at_a_place_that_is_computed, a_list_that_grows])
def test_a_program_for_each_length(function: Any) -> None:
    assert programs(function, LONG) == len(LONG)
