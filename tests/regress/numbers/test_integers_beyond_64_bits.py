"""Integers of Python's that a program computes with have 64 bits there: one that grows beyond them wrapped around in
silence, or was an error about sizes that fit into no memory."""

from __future__ import annotations

from typing import Any

import pytest

import weft


class Holder:
    n = 1
    seed = 12345


def step(h: Holder, x: Any, k: int) -> Any:
    h.n = h.n * 3**20 + k
    h.seed = (h.seed * 6364136223846793005 + 1442695040888963407) % 2**64
    return x * (h.n % 7) + (h.seed >> 33) % 100 - abs(h.n) % 5


@pytest.mark.parametrize("split", [False, True])
def test_a_number_that_grows(split: bool) -> None:
    eager, kept = Holder(), Holder()
    compiled = weft.compile(lambda x, k: step(kept, x, k), split=split)
    for k in range(6):
        assert compiled(weft.ones(2), k).tolist() == step(eager, weft.ones(2), k).tolist()
        assert (kept.n, kept.seed) == (eager.n, eager.seed)


@pytest.mark.parametrize("split", [False, True])
def test_a_small_number_is_one_program(split: bool) -> None:
    holder = Holder()

    def count(x: Any) -> Any:
        holder.n += 1
        return x * (holder.n * 1000 % 7)

    compiled = weft.compile(count, split=split)
    for k in range(2, 9):
        assert compiled(weft.ones(1)).item() == k * 1000 % 7
    holder.n = 2**62
    assert compiled(weft.ones(1)).item() == (2**62 + 1) * 1000 % 7
