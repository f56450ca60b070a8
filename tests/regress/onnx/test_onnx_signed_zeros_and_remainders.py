"""Signs of zeros, remainders at multiples, and functions without an operator in ONNX: what the file computes is what
weft computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator


def filled(number: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: weft.full_like(x, number(x.shape[0]))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "minus zero": filled(lambda n: -(n * 0.0)),
    "modulo": filled(lambda n: (n * 0.1) % 0.1),
    "modulo of negative": filled(lambda n: (n * -0.1) % 0.1),
    "modulo by negative": filled(lambda n: (n * 0.1) % -0.1),
    "zero by negative": filled(lambda n: (n * 1.0) % -5),
    "floored": filled(lambda n: (n * 0.1) // 0.1),
    "copysign": filled(lambda n: math.copysign(n, -1.0)),
    "copysign of a zero": filled(lambda n: math.copysign(2.0, -n * 0.0)),
    "atan2": filled(lambda n: math.atan2(n, 3)),
    "atan2 of zeros": filled(lambda n: math.atan2(-n * 0.0, -1.0)),
    "log1p": filled(lambda n: math.log1p(n)),
    "log1p of little": filled(lambda n: math.log1p(n * 1e-9)),
    "expm1": filled(lambda n: math.expm1(n * 1e-9)),
    "tensor modulo": lambda x: (x * x.shape[0] * 0.1) % 0.1,
    "tensor modulo a size": lambda x: (x * 0.7) % (x.shape[0] * 0.1),
    "tensor floored": lambda x: (x * x.shape[0] * 0.1) // 0.1,
    "tensor floored by negative": lambda x: (x * x.shape[0] * 0.1) // -0.1,
    "tensor log1p": lambda x: weft.log1p(x * x.shape[0] * 1e-7),
    "tensor expm1": lambda x: weft.expm1(x * x.shape[0] * -1e-7),
    "tensor atan2": lambda x: weft.atan2(x * x.shape[0], x * -2),
    "tensor atan2 of zeros": lambda x: weft.atan2(x * -0.0, x * -0.0 * x.shape[0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_file_computes_the_same(name: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")

    class Model(weft.nn.Module):
        def forward(self, x: Any) -> Any:
            return PROGRAMS[name](x)

    path = str(tmp_path / "model.onnx")
    weft.onnx.export(Model(), (weft.ones(4),), path, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    session, loaded = ReferenceEvaluator(onnx.load(path)), weft.onnx.load(path)
    for n in (4, 1, 3, 7, 10):
        x = weft.ones(n)
        expected = PROGRAMS[name](x).numpy()
        for values in (session.run(None, {"x": x.numpy()})[0], loaded(x).numpy()):
            np.testing.assert_allclose(values, expected, rtol=3e-7, atol=0)
            np.testing.assert_array_equal(np.signbit(values), np.signbit(expected))
