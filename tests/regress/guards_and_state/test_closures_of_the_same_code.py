"""Of several functions that one factory has made only the first was looked at: what the cells of the others hold was
no state. A number that changed there was unseen; a tensor that a call put there was a symbol: an error, which left it
on the user's function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import weft
from weft import Tensor


def scaled(k: float) -> tuple[Callable[[Tensor], Tensor], Callable[[float], None]]:
    def times(x: Tensor) -> Tensor:
        return x * k

    def put(other: float) -> None:
        nonlocal k
        k = other

    return times, put


def summing(start: float) -> Callable[[Tensor], Tensor]:
    total = weft.tensor(start)

    def add(x: Tensor) -> Tensor:
        nonlocal total
        total = total + x.sum()
        return x * total

    return add


class Holder:
    """Where the functions are found."""

    def __init__(self, functions: Iterable[Callable[[Tensor], Tensor]]) -> None:
        self.all = list(functions)
        self.first, self.second = self.all[:2]
        self.named = {"a": self.first, "b": self.second}
        self.name = "b"


WAYS: dict[str, Callable[[Holder, Tensor], Any]] = {
    "attributes": lambda h, x: h.first(x) + h.second(x) * 10,
    "items": lambda h, x: h.all[0](x) + h.all[-1](x) * 10,
    "a name of run time": lambda h, x: h.first(x) + getattr(h, "second" if h.name else "first")(x) * 10,
    "keys": lambda h, x: h.named["a"](x) + h.named[h.name](x) * 10,
    "a loop": lambda h, x: sum(f(x) * 10**i for i, f in enumerate(h.all)),
    "twice": lambda h, x: h.first(h.second(x)) + h.second(h.first(x)),
}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_change(way: str, split: bool) -> None:
    pairs = [scaled(1.0), scaled(2.0)]
    holder = Holder(times for times, _ in pairs)
    step = weft.compile(lambda x: WAYS[way](holder, x), split=split)
    for k in range(6):
        if k in (2, 4):
            pairs[1][1](k + 3.0)
        if k in (3, 4):
            pairs[0][1](k + 5.0)
        x = weft.full((2,), k + 1.0)
        assert step(x).tolist() == WAYS[way](holder, x).tolist()


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_tensors_that_a_call_puts_there(way: str, split: bool) -> None:
    here, there = (Holder([summing(0.0), summing(1.0)]) for _ in range(2))
    step = weft.compile(lambda x: WAYS[way](here, x), split=split)
    for k in range(4):
        x = weft.full((2,), k + 1.0)
        assert step(x).tolist() == WAYS[way](there, x).tolist()
