"""Random models (random_models.py) in files of every opset: onnx's reference evaluator and `weft.onnx.load` give what
weft gives, for the example, for other values and other sizes. What the opset lacks is refused by its name.
"""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import weft
import weft.onnx
from tests.agree.width import times
from tests.unit.onnx.random_models import program
from weft.nn import functional as F
from weft.support.errors import Unsupported

Arrays = dict[str, np.ndarray[Any, Any]]


class Net(weft.nn.Module):
    """A model with the text of a function as its forward."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.w = weft.nn.Parameter(weft.rand(3, 3) - 0.5)
        self.b = weft.nn.Parameter(weft.rand(3))
        space: dict[str, Any] = {"weft": weft, "F": F}
        exec(text, space)
        self.body = space["forward"]

    def forward(self, x: weft.Tensor, y: weft.Tensor, i: weft.Tensor, b: weft.Tensor) -> Any:
        return self.body(self, x, y, i, b)


def drawn(rng: np.random.Generator, rows: int) -> Arrays:
    x, y = (rng.uniform(-1, 1, (rows, 3)).astype(np.float32) for _ in range(2))
    return {"x": x, "y": y, "i": rng.integers(-4, 5, (rows, 3)), "b": rng.random((rows, 3)) < 0.5}


def close(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return np.allclose(a, b, 2e-4, 2e-4, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a, b)


@pytest.mark.parametrize("part", range(4))
def test_files_compute_what_the_model_does(part: int, rng: np.random.Generator) -> None:
    checked = 0
    while checked < times(5):
        r = random.Random(int(rng.integers(1 << 30)))
        text, opset, is_dynamic = program(r), r.randint(13, 21), r.random() < 0.6
        model, rows = Net(text), r.choice((3, 4))
        calls = [drawn(rng, rows), drawn(rng, rows), *([drawn(rng, r.choice((3, 5)))] if is_dynamic else [])]
        expected = [[out.detach().numpy() for out in model(*map(weft.tensor, call.values()))] for call in calls]
        file = io.BytesIO()
        try:
            weft.onnx.export(
                model, tuple(map(weft.tensor, calls[0].values())), file, opset_version=opset,
                input_names=list(calls[0]), dynamic_axes={n: {0: "rows"} for n in calls[0]} if is_dynamic else None,
            )
        except Unsupported as refused:
            assert f"the export is for opset {opset}" in str(refused), f"{refused}\n{text}"
            continue
        checked += 1
        written = onnx.load_from_string(file.getvalue())
        names = [entry.name for entry in written.graph.input]
        loaded, reference = weft.onnx.load(written), ReferenceEvaluator(written)
        for call, wanted in zip(calls, expected, strict=True):
            ours = loaded(*[weft.tensor(call[name]) for name in names])
            theirs = reference.run(None, {name: call[name] for name in names})
            for want, our, their in zip(wanted, ours, theirs, strict=True):
                assert close(want, our.detach().numpy()), f"read back, opset {opset}\n{text}"
                assert close(want, np.asarray(their)), f"onnx's evaluator, opset {opset}: {want} {their}\n{text}"
