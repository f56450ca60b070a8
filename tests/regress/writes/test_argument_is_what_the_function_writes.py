"""A function that writes into a list or dict of Python's state took a container among its arguments for another one,
also at a call that is given the very one: it read what that held before the write, in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor

held: Any = None


def appends(x: Tensor, given: Any) -> Tensor:
    held.append(x)
    return x * 2 + sum(given)


def puts(x: Tensor, given: Any) -> Tensor:
    held[0] = x
    return given[0] * 2


def counts(x: Tensor, given: Any) -> Tensor:
    held["n"] += 1
    return x * given["n"]


def updates(x: Tensor, given: Any) -> Tensor:
    held.update(a=x)
    return given["a"] * 2


LIST: Callable[[Tensor], Any] = lambda x: [x]  # noqa: E731
DICT: Callable[[Tensor], Any] = lambda x: {"a": x, "n": 3}  # noqa: E731


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("function", "make"), [(appends, LIST), (puts, LIST), (counts, DICT), (updates, DICT)])
def test_calls_that_are_given_it(
    function: Callable[[Tensor, Any], Tensor], make: Callable[[Tensor], Any], split: bool
) -> None:
    global held
    step = weft.compile(function, split=split)
    for k, is_given in enumerate((False, False, True, False, True, True)):
        x = weft.full((2,), float(k))
        seen = []
        for run in (step, function):
            held = make(x + 1)
            seen.append((run(x, held if is_given else make(x + 5)).tolist(), repr(held)))
        assert seen[0] == seen[1], k
