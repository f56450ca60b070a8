"""Clocks and random bytes that code in C reads for the user's function, and names of classes that weft's own code
reads: refused, or asked again."""

from __future__ import annotations

import datetime
import functools
import os
import time
from collections.abc import Callable
from operator import attrgetter, itemgetter, methodcaller
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.guards.effects import SideEffectError
from weft.support.errors import CaptureError

CALLER, NOW = methodcaller("perf_counter"), methodcaller("now")
LISTED, HELD = [CALLER], SimpleNamespace(caller=CALLER, clock=time)
BOUND = functools.partial(CALLER, time)

CLOCKS: dict[str, Callable[[Any], Any]] = {
    "methodcaller": lambda x: x + CALLER(time),
    "methodcaller made here": lambda x: x + methodcaller("perf_counter")(time),
    "methodcaller in a list": lambda x: x + LISTED[0](time),
    "methodcaller in a loop": lambda x: x + sum([caller(time) for caller in LISTED]),
    "methodcaller of an object": lambda x: x + HELD.caller(HELD.clock),
    "methodcaller by itemgetter": lambda x: x + itemgetter(0)(LISTED)(time),
    "methodcaller by attrgetter": lambda x: x + attrgetter("caller")(HELD)(time),
    "methodcaller in a partial": lambda x: x + BOUND(),
    "methodcaller in a map": lambda x: x + next(map(CALLER, [time])),
    "methodcaller called by name": lambda x: x + CALLER.__call__(time),
    "methodcaller of a class": lambda x: x + NOW(datetime.datetime).microsecond,
    "iterator that calls": lambda x: x + next(iter(time.perf_counter, None)),
    "called by name": lambda x: x + time.perf_counter.__call__(),
    "called by its type": lambda x: x + type(time.perf_counter).__call__(time.perf_counter),
    "called by map": lambda x: x + next(map(lambda clock: clock(), [time.perf_counter])),
    "random bytes": lambda x: x + next(map(os.urandom, [4]))[0],
    "random bytes by methodcaller": lambda x: x + methodcaller("urandom", 4)(os)[0],
}


@pytest.mark.parametrize("name", CLOCKS)
def test_a_clock_is_refused(name: str) -> None:
    with pytest.raises(SideEffectError, match=r"reads the clock|random bytes"):
        weft.compile(CLOCKS[name])(weft.zeros(2))


def test_methodcallers_of_other_methods() -> None:
    upper, half = methodcaller("upper"), methodcaller("mul", 0.5)
    compiled = weft.compile(lambda x: half(x) + len(upper("ab")))
    for n in (2, 3, 4):
        assert compiled(weft.ones(n)).tolist() == [2.5] * n


class Named(weft.nn.Module):
    def forward(self, x: Any) -> Any:
        return x


NAMED = Named()
NESTED = weft.nn.Sequential(NAMED)
OPTIMIZER = type("Plain", (weft.optim.SGD,), {})([weft.ones(1, requires_grad=True)], lr=0.1)
TEXTS: dict[str, tuple[Callable[[Any], Any], type]] = {
    "_get_name": (lambda x: x + len(NAMED._get_name()), Named),
    "repr": (lambda x: x + len(repr(NAMED)), Named),
    "repr of a container": (lambda x: x + len(repr(NESTED)), Named),
    "str": (lambda x: x + len(f"{NAMED}"), Named),
    "repr of an optimizer": (lambda x: x + len(repr(OPTIMIZER)), type(OPTIMIZER)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_class_gets_another_name(name: str) -> None:
    function, cls = TEXTS[name]
    compiled, before = weft.compile(function), cls.__name__
    try:
        for text in ("A", "Ab", "Abc"):
            cls.__name__ = text
            assert compiled(weft.zeros(1)).tolist() == function(weft.zeros(1)).tolist()
    finally:
        cls.__name__ = before


def test_the_text_of_an_older_tensor_is_refused() -> None:
    older = weft.ones(2)
    compiled = weft.compile(lambda x: x + len(repr(older)))
    with pytest.raises(CaptureError, match="its text"):
        compiled(weft.zeros(1))
    assert weft.compile(lambda x: x + 0 * len(repr(x)))(weft.zeros(1)).tolist() == [0.0]  # a type, for debuggers
