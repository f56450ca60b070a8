"""resize_ of a view of an argument that shows a part of its memory: the memory has room enough. And of anything while a
weak proxy of a dead object lives."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

import weft
from weft.func import functionalize

MODES: dict[str, Any] = {
    "eager": lambda f: f,
    "functionalize": functionalize,
    "copies": lambda f: functionalize(f, remove="mutations_and_views"),
    "compile": lambda f: weft.compile(f, backend="interpret"),
    "native": weft.compile,
    "split": lambda f: weft.compile(f, split=True),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 3])
def test_a_view_of_an_argument_with_gaps(mode: str, size: int) -> None:
    def f(x: Any) -> Any:
        v = x[3:]
        v.resize_((size,))
        v.add_(100)
        return v * 1

    base = weft.arange(12.0).view(6, 2)
    made = MODES[mode](f)(base[:, ::2])
    assert made.tolist() == [106, 107, 108][:size]
    assert base.flatten().tolist() == [100 + i if 6 <= i < 6 + size else i for i in range(12)]


@pytest.mark.parametrize("mode", MODES)
def test_a_view_of_an_argument_that_begins_later(mode: str) -> None:
    def f(x: Any) -> Any:
        v = x[:1]
        v.resize_((3,))
        return v * 1

    base = weft.arange(6.0)
    assert MODES[mode](f)(base[1:3]).tolist() == [1, 2, 3]


@pytest.mark.parametrize("mode", ["eager", "functionalize", "copies", "split"])
@pytest.mark.parametrize("size", [2, 4, 6])
def test_an_argument_that_begins_later(mode: str, size: int) -> None:
    base = weft.arange(10.0)
    x = base[3:7]
    MODES[mode](lambda x: x.resize_((size,)))(x)
    assert x.storage_offset() == 3 and x.tolist() == [3, 4, 5, 6, 7, 8][:size]
    x.zero_()
    assert base.tolist() == [0 if 3 <= i < 3 + size else i for i in range(10)]


def test_a_storage_grows_while_a_dead_proxy_lives() -> None:
    class Anything:
        pass

    dead = weakref.proxy(Anything())
    x = weft.arange(4.0)
    seen = x.view(2, 2)
    x.resize_((6,))
    seen[0, 0] = 7
    assert x[0].item() == 7 and len(x) == 6
    del dead
