"""weft.debug.misses: what differed, from what to what, on which line, and what to do; a remedy for every kind of guard.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.imports import tree_of
from weft.guards import content_guard, guard, hidden_guard
from weft.guards.guard import Guard
from weft.support.errors import ArgumentError

ROOT = Path(__file__).resolve().parents[3]
FILE = Path(__file__).name


class Settings:
    """What the steps below read."""

    mode = "fast"

    def __init__(self) -> None:
        self.scale, self.weight, self.table = 2.0, weft.ones(3), np.ones(3)
        self.items = [1.0]
        self.function: Any = lambda x: x


def test_each_miss_has_its_line_its_values_and_a_remedy() -> None:
    s = Settings()

    @weft.compile
    def step(x: Any, sign: str = "plus") -> Any:
        y = x * s.scale + s.weight
        if s.mode == "slow":
            y = y + 1
        for item in s.items:
            y = y + item
        y = s.function(y) + weft.from_numpy(s.table)
        return y if sign == "plus" else -y

    first = step.function.__code__.co_firstlineno
    x = weft.ones(3)
    with pytest.raises(ArgumentError, match="was not called yet"):
        weft.debug.misses(step)
    step(x)
    assert not list(weft.debug.misses(step)) and "every call but the first" in str(weft.debug.misses(step))
    s.scale = 3.0
    step(x)
    (note,) = weft.debug.misses(step)
    assert note.text == f"{FILE}:{first + 2}: s.scale was 2.0, is now 3.0" and "is an input" in note.remedy
    s.weight = weft.zeros(3)
    step(x)
    note = list(weft.debug.misses(step))[-1]
    assert f"{FILE}:{first + 2}: s.weight was" in note.text and "copy_" in note.remedy
    s.mode = "slow"
    step(x)
    note = list(weft.debug.misses(step))[-1]
    assert f"{FILE}:{first + 3}: s.mode was 'fast', is now 'slow'" in note.text and "weft.where" in note.remedy
    s.items.append(2.0)
    step(x)
    note = list(weft.debug.misses(step))[-1]
    assert f"{FILE}:{first + 5}: len(s.items) was 1, is now 2" in note.text and "fixed size" in note.remedy
    s.items.append(2.0)
    step(x)
    assert list(weft.debug.misses(step))[-1].times == 2  # one reason, with the latest values
    s.function = lambda y: y
    step(x)
    note = list(weft.debug.misses(step))[-1]
    assert f"{FILE}:{first + 7}: s.function was" in note.text and "lambda" in note.remedy
    s.table[0] = 5.0
    step(x)
    note = list(weft.debug.misses(step))[-1]
    assert f"{FILE}:{first + 7}: content of s.table" in note.text and "weft.from_numpy" in note.remedy
    step(x.double())
    assert "x.to(dtype)" in list(weft.debug.misses(step))[-1].remedy
    with weft.no_grad():
        step(x)
    assert "grad mode" in list(weft.debug.misses(step))[-1].text
    text = str(weft.debug.misses(step))
    assert text.count("what to do:") == len(list(weft.debug.misses(step)))
    explained = str(weft.explain(step))
    assert "last miss of" in explained and "what to do:" in explained


def test_a_split_function_says_where_it_is_cut() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return y.exp() if y.numpy().sum() > 0 else y

    split = weft.compile(f, split=True)
    for _ in range(3):
        split(weft.ones(100_000))
    told = weft.debug.misses(split)
    assert f"{FILE}:{f.__code__.co_firstlineno + 2}: numpy()" in str(told)


def test_every_kind_of_guard_has_a_remedy() -> None:
    kinds = [
        kind for module in (guard, content_guard, hidden_guard) for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Guard) and kind is not Guard
    ]
    assert len(kinds) > 12
    for kind in kinds:
        assert getattr(kind, "remedy", "") or kind.remedy_for is not Guard.remedy_for, kind


def test_every_reason_of_a_program_has_a_remedy() -> None:
    calls = 0
    for path in [*(ROOT / "weft/compile").rglob("*.py"), ROOT / "weft/programs/store.py"]:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Miss":
                calls += 1
                assert any(k.arg == "remedy" for k in node.keywords), f"{path}:{node.lineno}"
    assert calls > 25
