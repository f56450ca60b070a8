"""Objects that a call makes were taken for older ones where their `__init__` goes by `__dict__` or `setattr`, or where
they stand in a cycle beside an attribute whose name is computed: refused, or captured at each call. An attribute of
`a if c else b` whose name is computed was not seen at all, and went stale."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.support.counters import counters

older, other, names, flag = SimpleNamespace(b=2.0), SimpleNamespace(b=7.0), ["b"], True


class Box:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Set:
    def __init__(self, b: float) -> None:
        for name in ("b",):
            setattr(self, name, b)


class Bare:
    b: float
    me: Any


def itself(x: Any, kind: Any) -> Any:
    made = kind(b=3.0)
    made.me = made
    values = [getattr(older, name) for name in names]
    return x * values[0] * made.me.b


def counted(x: Any, kind: Any) -> Any:
    made = Bare()
    made.me, made.b = made, 1.0
    sums = [getattr(made, name) for name in names] + [getattr(older, name) for name in names]
    made.me.b += 1
    return x * sum(sums) * made.b


def chosen(x: Any, kind: Any) -> Any:
    return x * getattr(older if flag else other, names[0]) + hasattr(other if flag else older, "b" if flag else "c")


@pytest.mark.parametrize("function, kind", [(itself, Box), (itself, Set), (counted, Bare), (chosen, Bare)])
def test_one_capture_for_a_state(function: Callable[..., Any], kind: type) -> None:
    compiled = weft.compile(lambda x: function(x, kind), backend="interpret")
    before = counters.captures
    for older.b in (2.0, 2.0, 5.0, 4.0):
        assert compiled(weft.ones(2)).tolist() == function(weft.ones(2), kind).tolist()
    assert counters.captures - before == 2
