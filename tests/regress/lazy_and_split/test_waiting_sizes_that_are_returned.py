"""Sizes that wait in what a split call gives are plain numbers behind it: json and other code in C takes no others."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import weft


def test_waiting_sizes_are_numbers_behind_a_split_call(rng: np.random.Generator) -> None:
    seen: list[Any] = []

    def step(x: weft.Tensor) -> Any:
        k = x[x > 0].shape[0]
        if x.sum() > 1e9:
            return None
        print(end="")
        pair = (k, [k + 1, {"twice": 2 * k}])
        seen.append(pair[1])
        return pair, x * 2

    compiled = weft.compile(step, split=True)
    for n in (4, int(rng.integers(2, 9)), 5):
        x = rng.standard_normal(n)
        pair, _ = compiled(weft.from_numpy(x))
        k = int((x > 0).sum())
        assert json.loads(json.dumps(pair)) == [k, [k + 1, {"twice": 2 * k}]]
        assert pair[1] is seen[-1]
