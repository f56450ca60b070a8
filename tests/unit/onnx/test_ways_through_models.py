"""Branches and loops that a trace keeps, and loops that several values leave: exported, they go other ways for other
inputs.
"""

from __future__ import annotations

import pytest

import weft
import weft.jit
from tests.unit.onnx.test_export import agree, exported
from weft import Tensor


def chosen(x):
    return weft.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))


def halved(x):
    return weft.while_loop(lambda v, k: v.abs().max() > 1, lambda v, k: (v * 0.5, k + 1), (x, weft.tensor(0)))


@weft.jit.script
def first_large_row(x: Tensor):
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0.5):
            return x[i] * 2, i
    return x[0], -1


@pytest.mark.parametrize("model", [chosen, halved, first_large_row])
def test_other_inputs_go_other_ways(model, rng) -> None:
    example = (weft.full((3, 2), -0.5),)
    written = exported(model, example, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for rows, scale in ((3, -0.5), (5, 0.5), (4, 9.0), (1, -9.0)):
        agree(model, written, (weft.tensor(rng.uniform(0.5, 1, (rows, 2)) * scale, dtype=weft.float32),))


def test_rows_of_a_scan_of_any_length() -> None:
    def scanned(x):
        return weft.scan(lambda c, v: (c + v, c * v), weft.zeros(2), x)

    written = exported(scanned, (weft.ones(3, 2),), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for rows in (3, 5, 1):
        agree(scanned, written, (weft.full((rows, 2), 0.5),))
    agree(scanned, exported(scanned, (weft.ones(3, 2),)), (weft.full((3, 2), 0.5),))
