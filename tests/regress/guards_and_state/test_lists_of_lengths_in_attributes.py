"""A list of numbers that an attribute, a global or an item holds, and that is another list at each call, made a program
for each list; its numbers are inputs now."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import weft

held = SimpleNamespace(parts=[1, 3], table={"parts": (1, 3)})
Body = Callable[[weft.Tensor], weft.Tensor]
READS: dict[str, Body] = {
    "attribute": lambda x: weft.cat([p * (i + 1) for i, p in enumerate(x.split(held.parts))]),
    "item": lambda x: weft.cat([p * (i + 1) for i, p in enumerate(x.split(held.table["parts"]))]),
    "sum": lambda x: x * sum(held.parts) + len(held.parts),
    "slice": lambda x: x[held.parts[0] :] * held.parts[1],
}


def _change(first: int, n: int) -> None:
    held.parts, held.table["parts"] = [first, n - first], (first, n - first)


@pytest.mark.parametrize("name", READS)
def test_other_lists_are_no_new_programs(name: str) -> None:
    step = weft.compile(READS[name], backend="interpret")
    for call, n in enumerate((4, 5, 6, 7, 8, 9, 20, 30)):
        _change(call % 3 + 1, n)
        x = weft.arange(float(n))
        assert weft.equal(step(x), READS[name](x))
    assert len(step.entries) == 2


def test_other_lengths_are() -> None:
    step = weft.compile(READS["attribute"], backend="interpret")
    for parts in ([1, 3], [2, 2], [1, 1, 2], [2, 1, 1], [4]):
        held.parts = parts
        x = weft.arange(4.0)
        assert weft.equal(step(x), READS["attribute"](x))


def test_lists_that_a_step_puts_in_place_or_writes() -> None:
    def renew(x: weft.Tensor) -> weft.Tensor:
        held.parts = [held.parts[0] + 1, held.parts[1]]
        return x * held.parts[0]

    def write(x: weft.Tensor) -> weft.Tensor:
        held.parts[0] += 1
        return x * held.parts[0]

    for body in (renew, write):
        held.parts, step = [1, 3], weft.compile(body, backend="interpret")
        outs: list[Any] = [step(weft.ones(2)).tolist() for _ in range(4)]
        held.parts = [7, 2]
        outs.append(step(weft.ones(2)).tolist())
        assert outs == [[v, v] for v in (2.0, 3.0, 4.0, 5.0, 8.0)] and held.parts == [8, 2]


def test_code_that_takes_no_symbols() -> None:
    """What looks a number up, or asks which of two it is, is right for each list."""
    words = {1: 2.0, 2: 3.0, 3: 5.0}

    def step(x: weft.Tensor) -> weft.Tensor:
        return x * words[held.parts[0]] * (2 if held.parts[1] > 2 else 3)

    compiled = weft.compile(step, backend="interpret")
    for first in (1, 2, 3, 1, 2, 3, 1):
        held.parts = [first, 4 - first]
        assert compiled(weft.ones(2)).tolist() == step(weft.ones(2)).tolist()


def test_code_that_asks_which_list_it_is_or_for_its_text() -> None:
    kept = [1, 2]

    def which(x: weft.Tensor) -> weft.Tensor:
        return x * held.parts[0] * (2 if held.parts is held.other else 3 if held.parts is kept else 5)

    def text(x: weft.Tensor) -> weft.Tensor:
        return x * len(f"{held.parts}")

    for body in (which, text):
        step = weft.compile(body, backend="interpret")
        for call, parts in enumerate(([1, 2], [2, 2], [10, 2], kept, [3, 2], [4, 2])):
            held.parts, held.other = parts, parts if call % 2 else list(parts)
            assert step(weft.ones(2)).tolist() == body(weft.ones(2)).tolist()


def test_texts_of_numbers_among_the_arguments() -> None:
    def text(x: weft.Tensor, numbers: list[int]) -> weft.Tensor:
        return x * len(repr(numbers)) + len(repr(numbers[0])) * 10

    step = weft.compile(text, backend="interpret")
    for first in (1, 2, 30, 4, 500):
        assert step(weft.ones(2), [first, 2]).tolist() == text(weft.ones(2), [first, 2]).tolist()
