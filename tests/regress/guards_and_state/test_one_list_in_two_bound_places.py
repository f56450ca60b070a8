"""A list of tensors in two places, both inputs since they hold other lists at each call: what a step took out of one
was still in the other, for a list of its own stood in each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("flags", [(1, 1, 1, 1), (0, 1, 0, 1), (0, 0, 1, 1), (1, 0, 1, 0)])
def test_a_write_by_one_name_is_read_by_the_other(flags: tuple[int, ...]) -> None:
    held: Any = SimpleNamespace()

    def step(x: weft.Tensor, flag: bool) -> weft.Tensor:
        if flag and held.items:
            held.items.pop()
        out = x * len(held.alias)
        held.items = [x * 3]
        held.alias = held.items
        return out

    outcomes = []
    for function in (step, weft.compile(step, backend="interpret")):
        held.items = held.alias = [weft.ones(())]
        outs = [function(weft.ones(1) * i, bool(flag)).item() for i, flag in enumerate(flags)]
        outcomes.append((outs, held.alias is held.items))
    assert outcomes[0] == outcomes[1]
