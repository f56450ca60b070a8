"""A function that changed a list, a dict or a dataclass which it was given was refused; and attributes of a dataclass's
object that are no fields were not there, or had their defaults, in silence."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import weft
from tests.symbols_left import symbols_left

kept: list[Any] = []


@dataclass
class State:
    x: Any
    t: int = 0
    rate: float = 0.5
    later: Any = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.x.shape[0]


def items(b: Any) -> Any:
    b["y"], b["x"], b["n"] = b["x"] * 2, b["x"] + 1, b.get("n", 0) + 1
    return b["x"] * b["n"]


def removed(b: Any) -> Any:
    del b["x"]
    b["self"] = b
    return b


def fields(s: State) -> Any:
    s.t += 1
    s.rate *= 1.5
    s.x = s.x * s.t * s.size * getattr(s, "extra", 1)
    s.new = s.x + 1
    return s


def moved(v: list[Any]) -> Any:
    v.insert(0, v[-1])
    v.reverse()
    v[0]["q"] = v[0]["p"] + len(v)
    return v


def aliases(v: list[Any], w: list[Any]) -> Any:
    v.append(w[0] + len(w))
    w.append(v[0])
    return len(v) + len(w)


def global_too(v: list[Any]) -> Any:
    v.append(weft.ones(1))
    kept[0].append(weft.zeros(1))
    return len(v)


def grown(v: Any) -> Any:
    v[0].append(v[0][0] + 1)
    v[1]["new"].append(v[0][0])
    return sum(v[0])


def of_state(k: int) -> State:
    state = State(weft.ones(2) * k, k)
    if k % 2:
        state.extra = 7
    return state


def pair(k: int) -> Any:
    v = [weft.ones(1)]
    return (v, v) if k in (1, 3) else (v, [weft.ones(1) * k])


CASES: list[tuple[Any, Callable[[int], Any]]] = [
    (items, lambda k: ({"x": weft.ones(3) * k},)),
    (removed, lambda k: ({"x": weft.ones(3), "y": k},)),
    (fields, lambda k: (of_state(k),)),
    (moved, lambda k: ([{"p": weft.ones(1) * k}, {"p": weft.ones(1), "q": k}],)),
    (aliases, pair),
    (global_too, lambda k: (kept[0] if k == 2 else [1],)),
    (grown, lambda k: ((deque([weft.ones(1) * k], 3), defaultdict(list)),)),
]


def seen(value: Any, around: tuple[int, ...] = ()) -> Any:
    if id(value) in around:
        return around.index(id(value))
    inside = (*around, id(value))
    if isinstance(value, weft.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return [(k, seen(v, inside)) for k, v in value.items()]
    if isinstance(value, State):
        return sorted((k, seen(v, inside)) for k, v in vars(value).items())
    return [seen(v, inside) for v in value] if isinstance(value, (list, tuple, deque)) else value


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[function.__name__ for function, _ in CASES])
def test_calls_are_those_of_eager_mode(function: Any, arguments: Any, split: bool) -> None:
    rows: list[list[Any]] = [[], []]
    for row, step in zip(rows, (function, weft.compile(function, split=split)), strict=True):
        kept[:] = [[1]]
        for k in range(5):
            args = arguments(k)
            out = step(*args)
            row.append([seen(out), seen(args), seen(kept), [out is a for a in args]])
            assert not symbols_left(out, *args, *kept)
    assert rows[0] == rows[1]


def test_a_list_that_grows_for_ever_is_refused_with_a_way() -> None:
    def step(log: list[Any], x: Any) -> Any:
        log.append(x * 2)
        return x

    compiled, log = weft.compile(step, backend="interpret"), [weft.ones(1)]
    with pytest.raises(weft.WeftError, match=r"adds to a list at every call.*Return the value"):
        for _ in range(50):
            compiled(log, weft.ones(1))
    assert not symbols_left(*log)


def test_an_item_that_a_defaultdict_lacks_and_nobody_reads() -> None:
    """Python's code names an item in a branch that does not run: it was added, to arguments and in objects."""

    class Holder:
        def __init__(self, items: Any) -> None:
            self.items = items

    def step(items: Any, flag: bool, x: Any) -> Any:
        if flag:
            items["rare"].append(x)
        return x * 2

    compiled = weft.compile(step, backend="interpret")
    within = weft.compile(lambda holder, flag, x: step(holder.items, flag, x), backend="interpret")
    for flag in (False, False, True, False, True):
        for call in (compiled, lambda items, flag, x: within(Holder(items), flag, x)):
            items: Any = defaultdict(list)
            assert call(items, flag, weft.ones(2)).tolist() == [2.0, 2.0]
            assert list(items) == ["rare"] * flag
