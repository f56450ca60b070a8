"""Lists that loops make in machine code: written out, repeated, joined, copied, sliced; and elements looked for."""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft.jit.interpreter.hot import compiled_after


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


@weft.jit.script
def sum_of(xs: list[int]) -> int:
    seen, total = [0.5, -0.0], 0
    for x in xs:
        total += x
        seen = [seen[-1] + x, float(total)]
    return total + int(seen[0])


@weft.jit.script
def windows(xs: list[int], n: int) -> tuple[int, list[int], list[list[int]]]:
    total, last = 0, [0]
    rows: list[list[int]] = []
    for i in range(n):
        part = xs[i % 5 : -1] + [i] * (i % 3) + last[:2]
        part.append(len(xs[-100:i]) - len(xs[i:3]))
        if i in part:
            total += part.index(i)
        last = part.copy()
        last[0] = -i
        if i % 4 == 0:
            rows += [part, part]
        if i % 7 == 0:
            part.clear()
        total += sum_of(part) * 3 + (1 if total in xs else 0)
    return total, last, rows


@weft.jit.script
def pairs(n: int) -> list[tuple[float, bool]]:
    best = [(0.0, False)]
    for i in range(n):
        both = [(i * 0.5, i % 2 == 0), best[-1]]
        best = both[1:] + [(both[0][0] + best[0][0], not both[0][1])] if i % 3 else both  # noqa: RUF005
    return best


@weft.jit.script
def shared(rows: list[list[int]], n: int) -> bool:
    new = [0]
    for i in range(n):
        if i % 3 == 0:
            new = [i]
        rows[i % 2] = new
        rows[0].append(i)
    return rows[0] is rows[1]


def names_of(rows):
    return [[r is s for s in rows] for r in rows]


@pytest.mark.parametrize(
    ("function", "make"),
    [(windows, lambda: ([5, 1, 4, 2, 3, 9], 40)), (pairs, lambda: (50,)), (shared, lambda: ([[1], [2]], 20))],
)
def test_values_and_objects_are_those_of_the_interpreter(function, make) -> None:
    interpreted, native = both(function, make)
    assert repr(interpreted) == repr(native)
    for a, b in zip((interpreted[0], *interpreted[1]), (native[0], *native[1]), strict=True):
        rows = [v[-1] if isinstance(v, tuple) else v for v in (a, b)]
        if isinstance(rows[0], list):
            assert names_of(rows[0]) == names_of(rows[1])


@weft.jit.script
def looks_for(xs: list[float], n: int) -> int:
    total = 0
    for i in range(n):
        ys = xs[i:] + [float(i)]  # noqa: RUF005
        xs[0] = -1.0
        total += ys.index(2.0)
    return total


def test_an_element_that_is_not_there_raises_as_in_the_interpreter() -> None:
    interpreted, native = both(looks_for, lambda: ([0.0, 1.0, 5.0, 5.0, 5.0, 2.0, 1.0], 90))
    assert repr(interpreted) == repr(native)
    assert "ValueError" in native[0] and "test_native_made_lists.py, line" in native[0]


def test_nan_is_found_as_python_finds_it() -> None:
    @weft.jit.script
    def f(x: float, n: int) -> int:
        found = 0
        for i in range(n):
            ys = [x, float(i)]
            found += 1 if x in ys else 0
        return found

    with compiled_after(3):
        assert f(float("nan"), 20) == f(1.5, 20) == 20


def test_more_lists_than_are_kept_at_a_time() -> None:
    @weft.jit.script
    def f(n: int) -> tuple[int, list[int]]:
        a, b = [0, 1], [1, 1]
        for _ in range(n):
            a, b = b, [b[1] % 1000003, (a[1] + b[1]) % 1000003]
        return a[0] + b[1], a

    @weft.jit.script
    def inner(n: int, m: int) -> int:
        total = 0
        for i in range(n):
            for j in range(m):
                total += [i, j][j % 2]
        return total

    expected, (x, y) = [0, 1], (1, 1)
    for _ in range(300_000):
        expected, (x, y) = [x, y], (y % 1000003, (expected[1] + y) % 1000003)
    before = weft.counters.native_calls
    assert f(300_000) == (expected[0] + y, expected)
    assert weft.counters.native_calls > before + 1
    assert inner(60, 6000) == sum(i * 3000 for i in range(60)) + 60 * sum(range(1, 6000, 2))
