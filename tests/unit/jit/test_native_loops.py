"""Loops over numbers as machine code: how they are entered and left, and that they are entered at all."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import weft
import weft.jit
from weft.jit.interpreter.hot import STEPS, compiled_after
from weft.jit.native import loop as native

RNG = np.random.default_rng(20)


@weft.jit.script
def mixed(n: int, a: int) -> int:
    for i in range(n):
        a = (a * 1103515245 + 12345) % 2147483648 + i // 7
        if a % 3 == 0:
            a += i
    return a


@weft.jit.script
def steps_of_collatz(n: int) -> tuple[int, int]:
    steps, top = 0, n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        top = max(top, n)
        steps += 1
    return steps, top


def in_python(n: int, a: int) -> int:
    for i in range(n):
        a = (a * 1103515245 + 12345) % 2147483648 + i // 7
        if a % 3 == 0:
            a += i
    return a


def test_a_loop_is_compiled_once_and_entered_from_where_it_stands() -> None:
    a = int(RNG.integers(1000))
    assert [mixed(n, a) for n in (0, -3, 1, STEPS)] == [in_python(n, a) for n in (0, -3, 1, STEPS)]
    before = weft.counters.native_calls
    assert mixed(20_000, a) == in_python(20_000, a)
    assert weft.counters.native_calls == before + 1
    compiles = weft.counters.llvm_compiles
    for n in RNG.integers(5_000, size=8):
        assert mixed(int(n), a) == in_python(int(n), a)
    assert weft.counters.llvm_compiles == compiles
    assert weft.counters.native_calls == before + 9


def test_the_interpreter_is_the_reference() -> None:
    before = weft.counters.native_calls
    with weft.jit.optimized_execution(False):
        assert mixed(300, 5) == in_python(300, 5)
    assert weft.counters.native_calls == before


def test_a_condition_that_is_false_at_once() -> None:
    with compiled_after(0):
        assert steps_of_collatz(1) == (0, 1)
        assert steps_of_collatz(27) == (111, 9232)


def test_long_loops_come_back_to_see_to_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "CHUNK", 7)
    before = weft.counters.native_calls
    with compiled_after(0):
        assert steps_of_collatz(27) == (111, 9232)
    assert weft.counters.native_calls == before + 16


def test_integers_wrap_around_as_in_the_interpreter() -> None:
    @weft.jit.script
    def powers(n: int, by: int) -> tuple[int, int, int]:
        a, least = 1, -1
        for _ in range(n):
            a = a * by + 1
            least = least * 2
        return a, least // -1 if least < 0 else 0, abs(least)

    for by in (3, -7, int(RNG.integers(1 << 40))):
        with weft.jit.optimized_execution(False):
            expected = powers(63, by)
        with compiled_after(0):
            assert powers(63, by) == expected
        exact = 1
        for _ in range(63):
            exact = exact * by + 1
        assert expected[0] == (exact + (1 << 63)) % (1 << 64) - (1 << 63)


def inner(k: int) -> int:
    return 100 // (k - 60)


def outer(k: int) -> int:
    return inner(k) + 1


def test_an_error_has_the_lines_of_all_open_calls() -> None:
    @weft.jit.script
    def f(n: int) -> int:
        total = 0
        for i in range(n):
            total += outer(i)
        return total

    def lines(after: int) -> list[str]:
        with compiled_after(after), pytest.raises(ZeroDivisionError) as caught:
            f(100)
        return str(caught.value).split("\n")

    assert lines(0) == lines(1 << 60)
    assert len([line for line in lines(0) if line.startswith("  at ")]) == 3
    assert "integer division or modulo by zero" in lines(0)[0]


def test_what_is_written_before_an_exception_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    @weft.jit.script
    def f(n: int, who: str, seen: weft.Tensor) -> int:
        for i in range(n):
            if i * i > 5000:
                print("too much", who, i)
                seen.add_(i)
                raise ValueError(f"{who} at {i}")
        return n

    for _ in range(2):
        seen = weft.zeros((), dtype=weft.int64)
        with pytest.raises(ValueError, match="she at 71"):
            f(100, "she", seen)
        assert (capsys.readouterr().out, seen.item()) == ("too much she 71\n", 71)


def test_results_that_64_bits_do_not_settle_are_the_interpreters() -> None:
    @weft.jit.script
    def f(n: int, a: int) -> tuple[float, int]:
        q, less = 0.0, 0
        for i in range(n):
            q = (a + i) / 3
            if a + i < 9007199254740993.0:
                less += 1
        return q, less

    a = (1 << 53) - 50
    expected = (a + 99) / 3, sum(a + i < 9007199254740993.0 for i in range(100))
    with compiled_after(0):
        for _ in range(5):
            assert f(100, a) == expected


def test_threads_share_a_compiled_loop() -> None:
    found: dict[int, int] = {}
    starts = [int(a) for a in RNG.integers(10_000, size=6)]

    def run(a: int) -> None:
        found[a] = mixed(30_000, a)

    threads = [threading.Thread(target=run, args=(a,)) for a in starts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {a: in_python(30_000, a) for a in starts}


def test_a_loop_with_texts_runs_its_inner_loops_natively() -> None:
    @weft.jit.script
    def f(n: int) -> str:
        text = ""
        for i in range(n):
            total = 0
            for j in range(200):
                total += i * j % 7
            text = text + str(total) + ","
        return text

    before = weft.counters.native_calls
    assert f(12) == "".join(f"{sum(i * j % 7 for j in range(200))}," for i in range(12))
    assert weft.counters.native_calls == before + 12


def test_numbers_that_stand_for_inputs_stay_with_the_interpreter() -> None:
    @weft.compile
    def step(x, n: int):
        return x * mixed(n, 3)

    x = weft.ones(2)
    for n in (100, 200, 300):
        assert step(x, n).tolist() == [float(np.float32(in_python(n, 3)))] * 2
