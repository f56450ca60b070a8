"""A lazy value whose computation failed is one again once all of it is overwritten: zero_() and fill_() read what had
failed, and so did writes through views of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import lazy

WRITES: dict[str, Callable[[Any], Any]] = {
    "zero_": lambda v: v.zero_().add_(3),
    "fill_": lambda v: v.fill_(3.0),
    "copy_": lambda v: v.copy_(weft.full((2, 2), 3.0, device="lazy")),
    "assigned": lambda v: v.__setitem__(slice(None), 3.0),
    "of a view": lambda v: v.view(4).fill_(3.0),
    "of a turned view": lambda v: v.t().copy_(weft.full((2, 2), 3.0, device="lazy")),
}
PARTS: dict[str, Callable[[Any], Any]] = {
    "row": lambda v: v[:1].fill_(3.0),
    "every other": lambda v: v.view(4)[::2].zero_(),
    "twice": lambda v: v.as_strided((2, 2), (1, 1)).fill_(3.0),
    "add_": lambda v: v.add_(1),
    "of itself": lambda v: v.copy_(v.t()),
    "of what hangs on it": lambda v: v.copy_(v + 1),
}


def _failed() -> Any:
    x = weft.arange(8.0, device="lazy").view(4, 2)
    found = x[weft.tensor([1, 9], device="lazy")]
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        found.tolist()
    return found


@pytest.mark.parametrize("name", WRITES)
def test_all_of_it(name: str) -> None:
    found = _failed()
    alias = found[1]
    WRITES[name](found)
    assert found.tolist() == [[3.0, 3.0], [3.0, 3.0]] and alias.tolist() == [3.0, 3.0]
    lazy.mark_step()
    assert (found + 1).sum().item() == 16


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_it(name: str) -> None:
    found = _failed()
    PARTS[name](found)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        found.tolist()
