"""`type(n) is int` of a size or of a number that became an input of the program was False, in silence: a symbol's class
is the one of symbols, and nothing asks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft


class Holder:
    n = 0
    f = 0.0

    def scaled(self, x: Any, k: Any) -> Any:
        return x * self._factor(k)

    def _factor(self, k: Any) -> Any:
        name = type(self).__name__
        return k * 2 if type(k) in (int, float) and name == "Holder" else "no number"


def is_number(value: Any) -> bool:
    return type(value) in {int, float}


holder = Holder()
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "an argument": lambda x, k: x * (2 if type(k) is int else 3) * k,
    "state": lambda x, k: x * (2 if type(holder.n) is int and type(holder.f) is float else 3) * holder.n,
    "a size": lambda x, k: x * (2 if type(x.shape[0]) is int else 3) * k,
    "sizes": lambda x, k: x * (2 if all(type(n) is int for n in x.shape) else 3) * k,
    "len": lambda x, k: x * (2 if type(len(x)) is int else 3) * k,
    "computed": lambda x, k: x * (2 if type(k * 2) is int and type(k / 2) is float else 3) * k,
    "a name": lambda x, k: x * len(type(k).__name__) * k,
    "a table": lambda x, k: x * {int: 2, float: 3}.get(type(k), 5) * k,
    "another function": lambda x, k: x * (2 if is_number(k) and is_number(x.shape[0]) else 3) * k,
    "a method": lambda x, k: holder.scaled(x, k),
    "made of it": lambda x, k: x * type(k)(3) * k,
}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", list(STEPS))
def test_it_is_that_of_the_number(name: str, split: bool) -> None:
    step = STEPS[name]
    compiled = weft.compile(lambda x, k: step(x, k), split=split)
    for k in (1, 2, 3, 4):
        holder.n, holder.f = k, k * 0.5
        x = weft.ones(k + 1)
        assert compiled(x, k).tolist() == step(x, k).tolist()
    assert len(compiled.entries) <= 2
