"""Loops whose index is counted down from a size: which are one program for all lengths; the others are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.compile.test_loop_lengths import LONG, SHORT, Function, given, programs, results


def reversed_range(x: Any, h: Any, w: Any) -> Any:
    path = [h]
    for t in reversed(range(x.shape[0])):
        h = weft.tanh(h * w + x[t])
        path.append(h)
    return weft.stack(path), h


def down_to_zero(x: Any, h: Any, w: Any) -> Any:
    n = len(x)
    for t in range(n - 2, -1, -1):
        h = weft.tanh(h * w + x[t]) * x[t + 1]
    return h


def down_to_one(x: Any, h: Any, w: Any) -> Any:
    for t in reversed(range(1, x.shape[0])):
        h = weft.tanh(h * w + x[t]) * x[t - 1]
    return h


def down_along_a_later_dim(x: Any, h: Any, w: Any) -> Any:
    columns = x.transpose(0, 1)
    for t in range(columns.shape[1] - 1, 0, -1):
        h = weft.tanh(h * w + columns[:, t])
    return h


def with_another_last_one(x: Any, h: Any, w: Any) -> Any:
    n = x.shape[0]
    for t in reversed(range(n)):
        following = w if t == n - 1 else x[t + 1]
        h = x[t] + following * 0.9 - h * 0.5
        if t < x.shape[0] - 2:
            h = h * 0.7
    return h


def mirrored(x: Any, h: Any, w: Any) -> Any:
    n, doubled = x.shape[0], x * 2
    for t in range(n):
        h = weft.tanh(h * w + x[t] * doubled[n - 1 - t])
    return h


def there_and_back(x: Any, h: Any, w: Any) -> Any:
    forward, backward, n = [h], [h], x.shape[0]
    for t in range(n):
        h = weft.tanh(h * w + x[t])
        forward.append(h)
    for t in range(n - 1, -1, -1):
        h = weft.sin(h * w + x[t] * forward[-1])
        backward.append(h)
    return weft.stack(forward) * weft.stack(backward), h


def with_sums_of_the_index(x: Any, h: Any, w: Any) -> Any:
    for t in range(x.shape[0] - 1, -1, -1):
        h = weft.tanh(h * w + x[t] * t - weft.sin(x[t] / (t + 1)) * ((t - 2) * 0.5)) * (1 - t * 0.01)
    return h


@pytest.mark.parametrize("function", [
    reversed_range, down_to_zero, down_to_one, down_along_a_later_dim, with_another_last_one, mirrored, there_and_back,
    with_sums_of_the_index,
])  # fmt: skip
def test_one_program(function: Function) -> None:
    assert programs(function, LONG) == 1
    programs(function, (SHORT[0], LONG[0], *SHORT[1:], LONG[1]))


def by_index(x: Any, h: Any, w: Any) -> Any:
    for t in reversed(range(x.shape[0])):
        h = weft.tanh(h * w + x[t])
        h = h * 2 if t == 3 else h * 1.5
    return h


def by_the_distance_from_the_end(x: Any, h: Any, w: Any) -> Any:
    n = x.shape[0]
    for t in reversed(range(n)):
        h = weft.tanh(h * w + x[t])
        h = h * 2 if t < n - 9 else h * 1.5
    return h


def by_half(x: Any, h: Any, w: Any) -> Any:
    n = x.shape[0]
    for t in range(n - 1, -1, -1):
        h = weft.tanh(h * w + x[t] * x[t // 2])
    return h


def by_an_item(x: Any, h: Any, w: Any) -> Any:
    factors = [0.5] * 7 + [0.9] * 99
    for t in reversed(range(x.shape[0])):
        h = weft.tanh(h * w + x[t]) * 0.5
        h = h * factors[t]
    return h


def by_a_break(x: Any, h: Any, w: Any) -> Any:
    for t in reversed(range(x.shape[0])):
        h = weft.tanh(h * w + x[t]) * 0.9
        if t == 2:
            break
    return h


def with_the_last_index(x: Any, h: Any, w: Any) -> Any:
    t = 0
    for t in reversed(range(2, x.shape[0])):
        h = weft.tanh(h * w + x[t]) * 0.9
    return h * t


def with_powers_of_the_index(x: Any, h: Any, w: Any) -> Any:
    for t in reversed(range(x.shape[0])):
        h = weft.tanh(h * w + x[t] * t) * 0.9**t
    return h


@pytest.mark.parametrize("function", [
    by_index, by_the_distance_from_the_end, by_half, by_an_item, by_a_break, with_the_last_index,
    with_powers_of_the_index,
])  # fmt: skip
def test_others_are_right(function: Function) -> None:
    lengths = (16, 25, 17)
    assert programs(function, lengths) == len(lengths)


def test_a_loop_that_is_caught_when_it_starts_again() -> None:
    """The capture starts again with another kind of index; code that catches all errors changes nothing."""

    def run(x: Any, h: Any, w: Any) -> Any:
        try:
            for t in reversed(range(x.shape[0])):
                h = weft.tanh(h * w + x[t] * 0.9**t)
        except Exception:
            h = h * 0
        return h

    assert programs(run, (16, 25, 17)) == 3


def test_rows_from_the_end_in_a_loop_of_one_length() -> None:
    def latest(x: Any, h: Any, w: Any) -> Any:
        n = x.shape[0]
        for k in range(12):
            h = weft.tanh(h * w + x[n - 1 - k]) * 0.9 + weft.sin(h)
        return h

    def while_there_are(x: Any, h: Any, w: Any) -> Any:
        i = x.shape[0] - 1
        while i >= 0:
            h = weft.tanh(h * w + x[i]) * 0.9 + weft.sin(h)
            i -= 1
        return h

    assert programs(latest, (14, 12, 30, 13)) == 1
    programs(latest, (14, 11, 10))  # (Python counts on from the end)
    programs(while_there_are, (14, 12, 30))
    step = weft.compile(latest)
    step(*given(0, 15))
    for function in (step, latest):
        with pytest.raises(weft.WeftError, match="out of bounds"):
            function(*given(1, 5))


@pytest.mark.parametrize("function", [
    reversed_range, down_to_zero, with_another_last_one, mirrored, with_sums_of_the_index,
])  # fmt: skip
def test_the_bits_are_those_of_the_unrolled_program(function: Function) -> None:
    bits: dict[str, list[bytes]] = {}
    for fold in ("on", "off"):
        with weft.knobs(fold=fold):
            step = weft.compile(function)
            seen = [v for call, n in enumerate((15, 12, 22)) for v in results(step, given(call, n))]
        bits[fold] = [v.tobytes() for v in seen if isinstance(v, np.ndarray)]
    assert bits["on"] == bits["off"]
