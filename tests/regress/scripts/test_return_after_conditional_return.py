"""A branch that always returns, behind a branch that may have returned, was taken to go on: a name that only it had
assigned was not defined behind."""

from __future__ import annotations

from typing import Any

import pytest

import weft

PROGRAM = """
def f(n: int):
    if n > 5:
        if n > 6:
            if n > 7:
                return 1
        n = 3
        if {condition}:
            return n + 2
    return n
"""


@pytest.mark.parametrize("condition", ["True", "-4 < 2", "n > 8", "False"])
def test_names_of_the_other_way_stay(condition: str) -> None:
    source = PROGRAM.format(condition=condition)
    names: dict[str, Any] = {}
    exec(source, names)
    scripted = weft.jit.CompilationUnit(source)
    assert [scripted.f(n) for n in range(10)] == [names["f"](n) for n in range(10)]


def test_within_a_loop() -> None:
    source = """
def f(n: int):
    total = 0
    for i in range(n):
        if i > 2:
            if i > 3:
                if n > 7:
                    break
                if n > 6:
                    return -total
            total = total + i
            if True:
                continue
        total = total + 1
    return total
"""
    names: dict[str, Any] = {}
    exec(source, names)
    scripted = weft.jit.CompilationUnit(source)
    assert [scripted.f(n) for n in range(10)] == [names["f"](n) for n in range(10)]
