"""A wrapper argument that objects among the arguments hold, too: the first call gave the object that the capture had
put together of the caller's own parts, and kept it as a constant of the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import weft
from tests.unit.subclasses.wrappers import Two


class Held:
    def __init__(self, u: Any) -> None:
        self.u = u


@dataclass
class Point:
    u: Any


def step(a: Any, w: Held, z: Point) -> Any:
    return z.u.b + w.u.b + w.u.a, a


@pytest.mark.parametrize("split", [False, True])
def test_the_argument_comes_back(split: bool) -> None:
    compiled = weft.compile(step, split=split)
    for call in range(4):
        pair = Two(weft.full((3,), float(call)), weft.ones(3))
        for _ in range(2):
            value, same = compiled(pair, Held(pair), Point(pair))
            assert same is pair
            assert value.tolist() == [call + 2.0] * 3
