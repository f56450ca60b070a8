"""join_rows: lists of rows that were taken apart are joined as parts of their tensors, with the bits of the lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.passes.fold.joins import MANY

LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "all": lambda rows: weft.stack(rows),
    "all, along another dim": lambda rows: weft.stack(rows, 1),
    "all, joined": lambda rows: weft.cat(rows),
    "all, joined along another dim": lambda rows: weft.cat(rows, -1),
    "without the first": lambda rows: weft.stack(rows[1:]),
    "in two parts": lambda rows: weft.stack(rows[5:] + rows[:5], -1),
    "with another one": lambda rows: weft.stack([*rows, rows[0] * 2]),
    "backwards": lambda rows: weft.stack(rows[::-1]),
    "one of them again and again": lambda rows: weft.stack([rows[3]] * len(rows)),
    "every second one": lambda rows: weft.stack(rows[::2] * 2),
}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("joined", list(LISTS))
def test_joined_rows(joined: str, dim: int) -> None:
    def step(x: Any) -> Any:
        result = LISTS[joined](list((x * 2.0).unbind(dim)))
        (result.sum(0) * result.cos().mean(0)).sum().backward()
        return result, result.std(), result.sum()

    rng = np.random.default_rng(dim + 1)
    shape = [3, 4, 5]
    shape[dim] = MANY + 7
    values = rng.normal(size=shape)
    both = []
    for run in (step, weft.compile(step)):
        x = weft.tensor(values, requires_grad=True)
        both.append((*run(x), x.grad))
    for eager, compiled in zip(*both, strict=True):
        weft.testing.assert_close(compiled, eager)


def test_the_list_of_a_loop_is_no_list_in_the_program() -> None:
    counts = []
    for steps in (MANY + 6, 8 * MANY):

        def step(x: Any, w: Any, steps: int = steps) -> Any:
            out = []
            for _ in range(steps):
                x = weft.tanh(x * w + x.cos())
                out.append(x)
            loss = weft.stack(out).square().mean()
            loss.backward()
            return loss

        graph = weft.compile(step).stages(weft.ones(4), weft.ones(4, requires_grad=True))["optimized"]
        counts.append(len(list(graph.walk())))
        assert max(len(node.args[0]) for node in graph.walk() if node.op.base == "cat") <= 4
    assert counts[0] == counts[1]
