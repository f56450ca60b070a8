"""That a list has no item at a place was guarded as if the list had the place's number among its items: tensors that
the list held later were asked for their truth, and numbers that it held were taken for places.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

import weft
from weft import Tensor


def latest(items: list[Any], default: Any) -> Any:
    try:
        return items[-1]
    except IndexError:
        return default


def second(items: list[Any], default: Any) -> Any:
    try:
        return items[1]
    except IndexError:
        return default


@pytest.mark.parametrize("read", [latest, second])
def test_an_item_that_comes_later(read) -> None:
    items: list[Any] = []

    def step(x: Tensor) -> Tensor:
        return x * read(items, 3.0)

    compiled = weft.compile(step)
    x = weft.ones(3)
    assert compiled(x).tolist() == [3.0] * 3
    for value in (weft.full((3,), 2.0), weft.full((3,), 5.0), 7.0, -1, 1):
        items.append(value)
        assert compiled(x).tolist() == step(x).tolist()
    items.clear()
    assert compiled(x).tolist() == [3.0] * 3


def test_numbers_are_no_places() -> None:
    items = [1, 1]

    def step(x: Tensor) -> Tensor:
        try:
            return x * items[2]
        except IndexError:
            return x * 3

    compiled, before = weft.compile(step), weft.support.counters.counters.captures
    for _ in range(3):
        assert compiled(weft.ones(3)).tolist() == [3.0] * 3
    assert weft.support.counters.counters.captures == before + 1


def test_keys_of_mappings_are_names(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "WEFT_TEST_OF_A_MISSING_KEY"
    monkeypatch.delenv(name, raising=False)

    def step(x: Tensor) -> Tensor:
        return x * len(os.environ.get(name, "abc"))

    compiled = weft.compile(step)
    for value in (None, "a", "ab", None):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
        assert compiled(weft.ones(2)).tolist() == step(weft.ones(2)).tolist()
