"""Sizes of lazy tensors that no run has found yet, in traces: numbers of the program, not of the example."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import weft

DEVICES = ["cpu", "lazy"]


def counted(x: weft.Tensor) -> weft.Tensor:
    positive = weft.nonzero(x.detach() > 0).shape[0]
    return x * (positive * 0.5) + 2.0 / (x.shape[0] + 1)


def elements(x: weft.Tensor) -> weft.Tensor:
    return x * weft.nonzero(x > 0).numel() - x[x < 0].size(0) // 2


def vectors(device: str) -> list[weft.Tensor]:
    return [weft.linspace(-0.9, 1.1, n, dtype=weft.float64, device=device) for n in (4, 7, 7, 3, 9)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", [counted, elements])
def test_the_trace_computes_them(function: Callable[[weft.Tensor], weft.Tensor], device: str) -> None:
    example, *others = vectors(device)
    traced = weft.jit.trace(function, (example,))
    file = io.BytesIO()
    weft.jit.save(traced, file)
    file.seek(0)
    loaded = weft.jit.load(file)
    for x in others:
        for program in (traced, loaded):
            assert program(x).tolist() == pytest.approx(function(x).tolist())


@pytest.mark.parametrize("device", DEVICES)
def test_they_are_inputs_of_a_trace(device: str) -> None:
    def scaled(x: weft.Tensor, count: Any) -> weft.Tensor:
        return x * count + count // 2

    arguments = [(x, weft.nonzero(x > 0).shape[0]) for x in vectors(device)]
    traced = weft.jit.trace(scaled, arguments[0])
    for x, count in arguments[1:]:
        assert traced(x, count).tolist() == pytest.approx(scaled(x, count).tolist())
