"""A loop whose number of steps the model finds was refused ("it carries a Unset") where a number that the export knows
makes a step return: what the step leaves unset nothing reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
import weft.jit
import weft.onnx
from weft import Tensor

reference = pytest.importorskip("onnx.reference")


def descend(x: Tensor, m: int) -> tuple[Tensor, int]:
    total = x * 2.0
    i = 0
    while i < 3 and m > 0:
        i += 1
        if not (total.min() < -1.0) or m == 1:
            return total * 3.0, m
        else:
            total = total - 1.0
    return total + 1.0, m


@pytest.mark.parametrize("m", [0, 1, 2])
def test_is_exported(m: int, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "model.onnx"
    weft.onnx.export(weft.jit.script(descend), (weft.ones(3), m), str(path), input_names=["x"])
    model, loaded = reference.ReferenceEvaluator(str(path)), weft.onnx.load(str(path))
    for shift in (-2.0, 0.0, 2.0):
        x = (rng.standard_normal(3) + shift).astype(np.float32)
        expected = descend(weft.tensor(x), m)
        for total, number in (loaded(weft.tensor(x)), model.run(None, {"x": x})):
            np.testing.assert_allclose(np.asarray(total), expected[0].numpy(), rtol=1e-6)
            assert int(number) == m
