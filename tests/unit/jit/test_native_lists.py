"""Lists of numbers in loops that run as machine code: the same elements, objects and errors as in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit
from weft.jit.interpreter.hot import compiled_after

RNG = np.random.default_rng(88)
Pair = tuple[int, float]


@weft.jit.script
def sieve(n: int) -> int:
    is_prime: list[bool] = [True] * n
    count = 0
    for i in range(2, n):
        if is_prime[i]:
            count += 1
            j = i * i
            while j < n:
                is_prime[j] = False
                j += i
    return count


@weft.jit.script
def recurrence(n: int) -> list[int]:
    xs = [0, 1]
    for _ in range(n):
        xs.append((xs[-1] * 3 + xs[len(xs) - 2]) % 1000003)
    return xs


@weft.jit.script
def longest_common(a: list[int], b: list[int]) -> list[list[int]]:
    rows = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            rows[i][j] = rows[i - 1][j - 1] + 1 if a[i - 1] == b[j - 1] else max(rows[i - 1][j], rows[i][j - 1])
    return rows


@weft.jit.script
def walk(limit: int) -> tuple[int, list[Pair]]:
    stack: list[Pair] = [(0, 1.5)]
    steps = 0
    while len(stack) > 0 and steps < limit:
        depth, weight = stack.pop()
        steps += 1
        if depth < 9:
            stack.append((depth + 1, weight * 0.5))
            stack.append((depth + 2, weight + 1.0))
    return steps, stack


@weft.jit.script
def exchanged(a: list[float], b: list[float], n: int) -> list[float]:
    for i in range(n):
        a[i % len(a)] += 1.0
        a, b = b, a
    return a


def both(function, make):
    """What the interpreter and machine code give, each with arguments of its own as the call has left them."""
    found = []
    for optimized in (False, True):
        args = make()
        with weft.jit.optimized_execution(optimized), compiled_after(3):
            before = weft.counters.native_calls
            try:
                value = function(*args)
            except Exception as error:
                value = f"{type(error).__name__}: {error}"
        assert not optimized or weft.counters.native_calls > before
        found.append((value, args))
    return found


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (sieve, lambda: (2000,)),
        (recurrence, lambda: (300,)),
        (longest_common, lambda: ([1, 2, 3, 1, 2] * 5, [2, 1, 3, 3, 1] * 4)),
        (walk, lambda: (10_000,)),
        (walk, lambda: (60,)),
        (exchanged, lambda: ([1.0, 2.0], [0.5, -0.0, 7.25], 101)),
    ],
)
def test_values_and_arguments_are_those_of_the_interpreter(function, make) -> None:
    interpreted, native = both(function, make)
    assert repr(interpreted) == repr(native)  # True is not 1, and -0.0 not 0.0


def test_one_list_under_two_names_is_one_list() -> None:
    @weft.jit.script
    def f(a: list[int]):
        total, b = 0, a
        for i in range(50):
            a[0] += i
            b.append(a[0])
            total += a[len(a) - 1] + len(b)
        return total, a, b

    interpreted, native = both(f, lambda: ([1],))
    assert interpreted == native
    _, a, b = native[0]
    assert a is b and len(a) == 51


def test_rows_stay_the_objects_that_they_were() -> None:
    @weft.jit.script
    def f(rows: list[list[int]], n: int):
        for i in range(n):
            rows[i % 2] = rows[2]
            rows[0][0] += 1
            rows.append(rows[i % 3])
        return rows

    interpreted, native = both(f, lambda: ([[0], [1], [2]], 20))
    assert interpreted == native
    rows = native[0]
    assert rows[0] is rows[1] is rows[2] is rows[20]


@weft.jit.script
def beyond(xs: list[int], n: int) -> int:
    total = 0
    for i in range(n):
        xs[i] = xs[i] + i
        xs.append(i)
        total += xs[i * 3]
    return total


@weft.jit.script
def read(xs: list[int], i: int) -> int:
    return xs[i]


@weft.jit.script
def beyond_in_a_call(xs: list[int], n: int) -> int:
    total = 0
    for i in range(n):
        xs[0] = i
        total += read(xs, i)
    return total


@weft.jit.script
def empty(xs: list[int]) -> int:
    total = 0
    while True:
        total += xs.pop()
    return total


@weft.jit.script
def raising(xs: list[float]) -> float:
    for i in range(100):
        xs.append(xs[i] * 2)
        if xs[-1] > 1000:
            raise ValueError(f"{len(xs)} elements, the last {xs[-1]}")
    return xs[0]


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (beyond, lambda: ([5] * 100, 90)),
        (beyond_in_a_call, lambda: (list(range(30)), 90)),
        (empty, lambda: (list(range(30)),)),
        (raising, lambda: ([1.0],)),
    ],
)
def test_errors_have_their_lines_and_leave_the_lists_as_far_as_they_came(function, make) -> None:
    interpreted, native = both(function, make)
    assert repr(interpreted) == repr(native)
    assert "test_native_lists.py, line" in native[0]


def test_a_step_that_the_interpreter_makes_is_not_made_twice() -> None:
    @weft.jit.script
    def f(xs: list[int], n: int) -> float:
        total = 0.0
        for i in range(n):
            xs[0] += 1
            xs.append(i)
            total += ((1 << 40) * i * 16384 + 1) / (xs[0] + 3)  # beyond 2**53 Python rounds once: the code leaves
        return total

    interpreted, native = both(f, lambda: ([0], 200))
    assert interpreted == native


def test_elements_of_another_type_stay_with_the_interpreter() -> None:
    @weft.jit.script
    def f(xs: list[int]) -> int:
        total = 0
        for i in range(100):
            total += xs[i % len(xs)]
        return total

    with compiled_after(3):
        assert f([2**62, 2**62]) == 100 * 2**62 - (1 << 64) * round(100 * 2**62 / (1 << 64))
        assert f([1, 2]) == 150


def test_a_few_steps_over_a_long_list_stay_with_the_interpreter() -> None:
    @weft.jit.script
    def f(xs: list[float], n: int) -> float:
        total = 0.0
        for i in range(n):
            total += xs[i]
        return total

    xs = RNG.uniform(size=5000).tolist()
    with compiled_after(0):
        for _ in range(5):
            assert f(xs, 3) == sum(xs[:3])
        before = weft.counters.native_calls
        f(xs, 3)
    assert weft.counters.native_calls == before
