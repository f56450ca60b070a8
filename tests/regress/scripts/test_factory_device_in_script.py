"""Factories of a scripted program make tensors on the device that they are asked for: they were on the CPU, whatever it
was.
"""

from __future__ import annotations

import pytest

import weft
import weft.jit
from weft import Tensor


@weft.jit.script
def every_other(x: Tensor, n: int) -> Tensor:
    places = weft.arange(0, x.size(0), n, device=x.device)
    return x.index_select(0, places) + weft.zeros(1, device=x.device)


@weft.jit.script
def made(n: int) -> Tensor:
    return weft.full([n, n], 2.0, device="lazy") * weft.ones(n, device="lazy")


def test_the_device_of_an_argument(rng) -> None:
    values = weft.tensor(rng.standard_normal((5, 2)))
    for n in (1, 2, 3):
        found = every_other(values.to("lazy"), n)
        assert found.device.type == "lazy"
        assert weft.equal(found.to("cpu"), values[::n]) and weft.equal(every_other(values, n), values[::n])


@pytest.mark.parametrize("optimized", [False, True])
def test_a_device_of_the_program(optimized) -> None:
    with weft.jit.optimized_execution(optimized):
        for n in (2, 3, 4):
            found = made(n)
            assert found.device.type == "lazy" and weft.equal(found.to("cpu"), weft.full((n, n), 2.0))
