"""Symbolic functions as PyTorch's exporter takes them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import weft
import weft.onnx
from weft.onnx import pytorch_symbolics, register_custom_op_symbolic, symbolic_opset11, unregister_custom_op_symbolic
from weft.onnx.symbolic_helper import parse_args


def written(function: Any, x: Any) -> Any:
    file = io.BytesIO()
    weft.onnx.export(function, (x,), file)
    return onnx.load_from_string(file.getvalue())


def test_a_custom_operator_is_written_by_its_symbolic_function(rng: np.random.Generator) -> None:
    @weft.library.custom_op("doors::scaled", mutates_args=())
    def scaled(x: weft.Tensor, by: float) -> weft.Tensor:
        return (x * by).unsqueeze(0)

    @scaled.register_fake
    def _(x: weft.Tensor, by: float) -> weft.Tensor:
        return x.new_empty((1, *x.shape))

    @parse_args("v", "f")
    def symbolic(g: Any, x: Any, by: float) -> Any:
        factor = g.op("Constant", value_t=weft.tensor(by, dtype=weft.float64))
        return symbolic_opset11.unsqueeze(g, g.op("Cast", g.op("Mul", x, factor), to_i=onnx.TensorProto.DOUBLE), 0)

    asked = []

    def model(x: Any) -> Any:
        asked.append(weft.onnx.is_in_onnx_export())
        return scaled(x, 3.0) + 1

    x = weft.from_numpy(rng.normal(size=(2, 3)))
    with pytest.raises(weft.WeftError, match="symbolic"):
        written(model, x)
    register_custom_op_symbolic("doors::scaled", symbolic, 11)
    register_custom_op_symbolic("doors::scaled", lambda g, x, by: None, 9)  # an older one does not count
    try:
        (result,) = ReferenceEvaluator(written(model, x)).run(None, {"x": x.numpy()})
    finally:
        unregister_custom_op_symbolic("doors::scaled", 11)
    np.testing.assert_allclose(result, model(x).numpy())
    assert asked[0] and asked[-1] is False
    assert "doors::scaled" not in pytorch_symbolics.EXPORTS
