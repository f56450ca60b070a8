"""A list or dict that the caller gave, or that was there before the call, came back as a copy from a compiled function,
an argument's could not be kept, and with wrapper subclasses among the values no container was the caller's."""

from __future__ import annotations

import collections
import itertools
from dataclasses import dataclass
from typing import Any

import pytest

import weft
from tests.unit.subclasses.wrappers import Two


@dataclass
class Point:
    x: Any


class Holder:
    cache: Any = None
    last: Any = None


WAYS = [weft.compile, lambda f: weft.compile(f, backend="interpret"), lambda f: weft.compile(f, split=True)]
CONTAINERS = [
    lambda: [weft.ones(2)], lambda: [1, 2], list, lambda: {"a": weft.ones(2)}, lambda: (weft.ones(2),),
    lambda: collections.deque([weft.ones(2)]), lambda: collections.OrderedDict(a=1), lambda: Point(weft.ones(2)),
    lambda: [[weft.ones(2)]], lambda: [Two(weft.ones(2), weft.ones(2))],
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", CONTAINERS)
def test_of_arguments(way: Any, make: Any) -> None:
    holder = Holder()

    def step(x: Any, given: Any, *, named: Any = None) -> Any:
        holder.last = given
        return x * 2, given, {"named": named, "both": [given, named]}

    run = way(step)
    for size in (2, 2, 3):
        given, named = make(), make()
        _, first, rest = run(weft.ones(size), given, named=named)
        assert first is given and rest["named"] is named and rest["both"][0] is given and rest["both"][1] is named
        assert holder.last is given
        if isinstance(given, list):
            holder.last.append(1)
            assert len(given) == len(make()) + 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [c for c in CONTAINERS if type(c()) is not tuple])
def test_of_state(way: Any, make: Any) -> None:
    holder = Holder()
    holder.cache = make()

    def step(x: Any) -> Any:
        return x * 2, holder.cache, [holder.cache]

    run = way(step)
    for size in (2, 2, 3, 3):
        _, first, (second,) = run(weft.ones(size))
        assert first is holder.cache is second
        if size == 3:
            holder.cache = make()


@pytest.mark.parametrize("way", WAYS)
def test_state_that_the_call_changes(way: Any) -> None:
    holder = Holder()
    holder.cache = [weft.zeros(2), 0.0]

    def step(x: Any) -> Any:
        total = holder.cache[0] + x
        holder.cache[0] = total
        return holder.cache, total

    run = way(step)
    for number in range(1, 4):
        cache, total = run(weft.ones(2))
        assert cache is holder.cache and cache[0] is total and total.tolist() == [number, number]


@pytest.mark.parametrize("way", WAYS)
def test_one_container_in_two_places_beside_wrappers(way: Any) -> None:
    holder = Holder()

    def step(a: Any, b: Any) -> Any:
        holder.last = a[0]
        return (a[0] * (2 if a is b else 3)).a, a is b, a, a[0]

    run, pair = way(step), Two(weft.ones(2), weft.ones(2))
    for same in (True, False, True):
        a = [pair]
        value, is_same, first, second = run(a, a if same else [pair])
        assert is_same is same and value.tolist() == [2.0 if same else 3.0] * 2
        assert first is a and second is pair and holder.last is pair


@pytest.mark.parametrize("way", WAYS)
def test_one_that_the_call_makes_in_several_places(way: Any) -> None:
    holder = Holder()
    holder.cache = [1.0]

    def step(x: Any) -> Any:
        made = [x * 2, holder.cache]
        holder.last = (made,)
        return made, {"made": made, "cache": holder.cache}

    run = way(step)
    for size in (2, 2, 3):
        first, rest = run(weft.ones(size))
        assert first is rest["made"] is holder.last[0] and first[1] is rest["cache"] is holder.cache


@pytest.mark.parametrize("way", WAYS)
def test_one_result_twice(way: Any) -> None:
    run = way(lambda x: (lambda made: (made, [made], x))([x * 2]))
    for size in (2, 2, 3):
        first, (second,), _ = run(weft.ones(size))
        assert first is second


@pytest.mark.parametrize("way", WAYS)
def test_a_wrapper_that_a_place_holds(way: Any) -> None:
    holder = Holder()

    def step(x: Any, given: Any) -> Any:
        before = holder.last
        holder.last = given
        return x * 2, before, given

    run, pairs = way(step), [Two(weft.ones(2) * i, weft.ones(2)) for i in range(4)]
    holder.last = pairs[0]
    for before, given in itertools.pairwise(pairs):
        _, first, second = run(weft.ones(2), given)
        assert first is before and second is given is holder.last
