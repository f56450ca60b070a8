"""A tuple that is made anew of the same items is another object, which code that compares by `is` sees."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest

import weft

_Pair = collections.namedtuple("_Pair", "first second")


class _Held:
    def __init__(self) -> None:
        self.pair = self.before = _Pair(weft.ones(2), weft.ones(2))
        self.both, self.table, self.items = (self.pair, 1), {"k": self.pair}, [self.pair]
        self.names = self.names_before = frozenset("ab")


_QUESTIONS: dict[str, Callable[[_Held], bool]] = {
    "attributes": lambda held: held.before is held.pair, "in_a_tuple": lambda held: held.both[0] is held.pair,
    "in_a_dict": lambda held: held.table["k"] is held.pair, "in_a_list": lambda held: held.items[0] is held.pair,
    "any": lambda held: any(v is held.pair for v in held.both), "not": lambda held: held.before is not held.pair,
    "ids": lambda held: id(held.pair) in {id(v) for v in held.both},
    "frozensets": lambda held: held.names is held.names_before,
}  # fmt: skip


def _changed(held: _Held) -> None:
    held.pair = _Pair(*held.pair)
    held.names = frozenset([*held.names])


@pytest.mark.parametrize("name", _QUESTIONS)
@pytest.mark.parametrize("by_the_step", [False, True])
def test_identity_of_equal_tuples(name: str, by_the_step: bool) -> None:
    question = _QUESTIONS[name]

    def step(held: _Held, x: Any) -> Any:
        y = x * (2 if question(held) else 3)
        if by_the_step:
            held.pair = _Pair(*held.pair)
        return y

    held, counterpart = _Held(), _Held()
    compiled, before = weft.compile(lambda x: step(held, x), backend="interpret"), weft.counters.captures
    for call in range(6):
        x = weft.ones(1)
        assert compiled(x).item() == step(counterpart, x).item(), call
        if call == 2 and not by_the_step:
            _changed(held)
            _changed(counterpart)
    assert weft.counters.captures - before <= 2
