"""A tuple that was there before the call came back, from a compiled function, as an equal one (returned, assigned, or
handed on from one attribute to another), a new one in two places as two; and a container that holds itself recursed
without end as a result or as an argument."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest

import weft
from tests.unit.subclasses.wrappers import Two
from weft.support.errors import CaptureError

WAYS = {
    "compile": weft.compile, "interpret": lambda f: weft.compile(f, backend="interpret"),
    "split": lambda f: weft.compile(f, split=True),
}
Pair = namedtuple("Pair", "first second")


class Holder:
    now: Any = None
    before: Any = None
    other: Any = None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [lambda i: (weft.full((2,), float(i)), i), lambda i: Pair(weft.ones(3) * i, ())])
def test_tuples_of_state_are_the_callers(way: str, make: Any) -> None:
    holder = Holder()

    def step(x: Any) -> Any:
        holder.before, holder.now = holder.now, (holder.now[0] + x, 1)
        holder.other = [holder.before, holder.before]
        return holder.before, x * 2

    compiled = WAYS[way](step)
    for call in range(4):
        was = holder.now = make(call)
        given, _ = compiled(weft.ones(()))
        assert given is was and holder.before is was
        assert holder.other[0] is was and holder.other[1] is was
        assert holder.now[0].tolist() == (was[0] + 1).tolist()


@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_is_handed_on_is_one_program(way: str) -> None:
    holder = Holder()
    holder.now = (weft.zeros(2), weft.zeros(2))

    def step(x: Any) -> None:
        holder.before = holder.now
        holder.now = (holder.now[1] + x, holder.now[0] * 2)

    compiled = WAYS[way](step)
    compiled(weft.ones(2))
    compiled(weft.ones(2))
    weft.counters.reset()
    for _ in range(5):
        was = holder.now
        compiled(weft.ones(2))
        assert holder.before is was and holder.now is not was
    assert weft.counters.captures == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_new_tuple_in_two_places_is_one(way: str) -> None:
    holder = Holder()

    def step(x: Any) -> Any:
        both = (x * 2, [x])
        holder.now = holder.before = both
        return both, {"again": both}, ()

    compiled = WAYS[way](step)
    for size in (2, 3, 3):
        first, second, empty = compiled(weft.ones(size))
        assert first is second["again"] and first is holder.now and holder.now is holder.before and empty == ()


def of_list(x: Any) -> Any:
    made = [x * 2]
    made.append(made)
    return made


def of_tuple(x: Any) -> Any:
    made: tuple[Any, list[Any]] = (x * 2, [])
    made[1].append(made)
    return made


def of_dict(x: Any) -> Any:
    made = {"x": x * 2}
    made["me"] = {"inside": made}
    return made


@pytest.mark.parametrize("assigned", [False, True])
@pytest.mark.parametrize("make", [of_list, of_tuple, of_dict])
def test_a_result_that_holds_itself_is_refused_or_right(make: Any, assigned: bool) -> None:
    holder = Holder()

    def step(x: Any) -> Any:
        if not assigned:
            return make(x)
        holder.now = make(x)
        return x

    for backend in ("llvm", "interpret"):
        with pytest.raises(CaptureError, match="holds itself"):
            weft.compile(step, backend=backend)(weft.ones(2))
        assert holder.now is None
    out = weft.compile(step, split=True)(weft.ones(2))
    whole = holder.now if assigned else out
    parts = list(whole.values()) if isinstance(whole, dict) else whole
    inside = parts[1] if isinstance(parts[1], (list, tuple)) else list(parts[1].values())
    assert parts[0].tolist() == [2.0, 2.0] and (parts[1] is whole or inside[0] is whole)


@pytest.mark.parametrize("has_wrappers", [False, True])
def test_an_argument_that_holds_itself_is_refused_or_right(has_wrappers: bool) -> None:
    if has_wrappers:  # (classes of tensors that are taken apart make arguments go another way)
        assert isinstance(Two(weft.ones(2), weft.ones(2)), weft.Tensor)
    given: list[Any] = [weft.ones(2)]
    given.append(given)
    with pytest.raises(CaptureError, match="holds itself"):
        weft.compile(lambda g: g[0] * 2)(given)
    assert weft.compile(lambda x: given[1][1][0] + x)(weft.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("way", WAYS)
def test_a_tuple_that_is_assigned_where_it_stands_already(way: str) -> None:
    """What had stood for it in the capture, an equal tuple, was left there."""
    one = weft.ones(3)
    holder = Holder()
    holder.now = was = Pair(one, one * 3)
    holder.before, holder.other = [one * 2], (was, [one])

    def step(x: Any) -> Any:
        holder.now = holder.other[0]
        holder.other = (holder.now, holder.before)
        return x + holder.now[0]

    compiled = WAYS[way](step)
    for _ in range(3):
        compiled(one)
        assert holder.now is was and holder.other[0] is was and holder.other[1] is holder.before
