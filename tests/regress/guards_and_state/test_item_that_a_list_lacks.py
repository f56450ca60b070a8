"""That a list has no item of a number was checked as if the list were a dict: by a search for an item that is equal to
the number, which asked tensors for their truth."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import weft


def test_a_list_that_is_empty_at_first() -> None:
    held = SimpleNamespace(items=[])

    def step(x: weft.Tensor) -> weft.Tensor:
        held.items.append(x * 2)
        first: weft.Tensor = held.items[0]
        return first + 1

    compiled = weft.compile(step, backend="interpret")
    for items in ([], [weft.ones(3) * 5, weft.ones(3)], [weft.ones(3)], [], [weft.zeros(3)]):
        held.items = list(items)
        expected = step(weft.ones(3)).tolist()
        held.items = list(items)
        assert compiled(weft.ones(3)).tolist() == expected
        before = held.items
        assert compiled(weft.ones(3)).tolist() == expected and held.items is before


def test_key_of_a_dict_where_a_list_is() -> None:
    state: dict[str, Any] = {"held": [2.0]}

    def step(x: weft.Tensor) -> weft.Tensor:
        held = state["held"]
        return x * (held["a"] if isinstance(held, dict) else held[0])

    compiled = weft.compile(step, backend="interpret")
    for held, expected in (([2.0], 2.0), ([3.0], 3.0), ({"a": 4.0}, 4.0), ([5.0], 5.0)):
        state["held"] = held
        assert compiled(weft.ones(1)).item() == expected
