"""weft.explain(f, x) ran the program on x with the sizes of the last call: other times, and reads behind x's memory."""

from __future__ import annotations

import random

import weft


def test_kernels_are_counted_for_the_arguments_that_are_given() -> None:
    few, many = random.randrange(3, 30), random.randrange(1000, 2000)
    step = weft.compile(lambda x: (x * 2).exp())
    step(weft.ones(7))
    for length, last in ((many, few), (few, many)):
        step(weft.ones(last))
        times = weft.explain(step, weft.ones(length)).programs[0].kernel_times
        assert [k.bytes for k in times] == [2 * 4 * length]  # float32, read and written
