"""Numbers that a program computes, one for each iteration of a Python loop, could not be rows of a loop: instead of the
loop, the lifting of the number that they are made of was given up, and each call with another one was captured."""

from __future__ import annotations

from typing import Any

import weft


def scaled(x: weft.Tensor, rate: float) -> Any:
    factors = [rate * (.5 + .1 * i) for i in range(8)]
    for factor in factors:
        x = ((x * factor).sin() + x).cos().tanh()
    return x


def test_the_number_is_lifted() -> None:
    x = weft.ones(3)
    with weft.knobs(fold="all"):
        step = weft.compile(scaled)
        weft.counters.reset()
        for rate in (.5, .6, .7, .8):
            assert weft.allclose(step(x, rate), scaled(x, rate))
    assert weft.counters.captures == 2
