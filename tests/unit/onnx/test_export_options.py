"""PyTorch's options of export: its usual call runs, inputs may have names, sizes may differ, and what is not there is
refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.onnx import OnnxExporterError, ONNXProgram, OperatorExportTypes, TrainingMode

onnx = pytest.importorskip("onnx")


class Scaled(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = weft.nn.Linear(3, 2)
        self.drop = weft.nn.Dropout(0.5)

    def forward(
        self, x: weft.Tensor, scale: weft.Tensor | None = None, shift: weft.Tensor | None = None
    ) -> weft.Tensor:
        y = self.drop(self.inner(x))
        y = y if scale is None else y * scale
        return y if shift is None else y + shift


@pytest.fixture
def model() -> Scaled:
    weft.manual_seed(0)
    return Scaled().eval()


def dims(value: Any) -> list[Any]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_the_usual_call_of_pytorch(model: Scaled, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    weft.onnx.export(
        model, weft.randn(1, 3), str(path), export_params=True, opset_version=17, do_constant_folding=True,
        input_names=["input"], output_names=["output"], keep_initializers_as_inputs=False, dynamo=False,
        dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}}, training=TrainingMode.EVAL,
        operator_export_type=OperatorExportTypes.ONNX,
    )
    written = onnx.load(path)
    assert dims(written.graph.input[0]) == ["batch", 3] and dims(written.graph.output[0]) == ["batch", 2]
    assert written.opset_import[0].version == 17 and written.producer_name == weft.onnx.producer_name
    x = weft.randn(4, 3)
    with path.open("rb") as file:
        assert weft.allclose(weft.onnx.load(file)(x), model(x), atol=1e-6)


def test_the_program_that_export_gives_runs_and_is_saved(model: Scaled, tmp_path: Path) -> None:
    x = weft.randn(4, 3)
    program = weft.onnx.export(model, (x,))
    assert isinstance(program, ONNXProgram) and weft.allclose(program(x), model(x), atol=1e-6)
    assert "nodes" in repr(program)
    program.save(tmp_path / "apart.onnx", external_data=True)
    assert (tmp_path / "apart.onnx.data").stat().st_size >= 8 * 4
    assert weft.allclose(weft.onnx.load(tmp_path / "apart.onnx")(x), model(x), atol=1e-6)
    assert weft.allclose(program(x), model(x), atol=1e-6)  # its weights are still there
    with pytest.raises(weft.errors.ArgumentError, match="beside a file that has a path"):
        program.save(io.BytesIO(), external_data=True)


def test_weights_as_inputs(model: Scaled) -> None:
    x, weights = weft.randn(4, 3), {"inner.weight", "inner.bias"}
    for options, there in (({"export_params": False}, set()), ({"keep_initializers_as_inputs": True}, weights)):
        file = io.BytesIO()
        weft.onnx.export(model, x, f=file, **options)
        graph = onnx.load_from_string(file.getvalue()).graph
        assert {i.name for i in graph.input} == {"x", *weights}
        assert {t.name for t in graph.initializer} & weights == there
    bare = weft.onnx.load(onnx.load_from_string(_without_weights(model, x)))
    wanted = x @ weft.ones(2, 3).T + 2.0
    assert weft.allclose(bare(x, weft.ones(2, 3), weft.full((2,), 2.0)), wanted, atol=1e-6)


def _without_weights(model: Scaled, x: weft.Tensor) -> bytes:
    file = io.BytesIO()
    weft.onnx.export(model, x, file, export_params=False)
    return file.getvalue()


@pytest.mark.parametrize("given", [
    {"args": (weft.ones(4, 3),), "kwargs": {"shift": weft.ones(2)}},
    {"args": (weft.ones(4, 3), {"shift": weft.ones(2)})},
    {"kwargs": {"x": weft.ones(4, 3), "shift": weft.ones(2)}},
])
def test_inputs_by_name(model: Scaled, given: dict[str, Any]) -> None:
    for form in (model, weft.jit.script(model)):
        program = weft.onnx.export(form, given.get("args", ()), kwargs=given.get("kwargs"))
        assert [i.name for i in program.model_proto.graph.input] == ["x", "shift"]
        x, shift = weft.randn(4, 3), weft.randn(2)
        assert weft.allclose(program(x, shift), model(x, shift=shift), atol=1e-6)
    with pytest.raises(weft.errors.ArgumentError, match="do not fit the model"):
        weft.onnx.export(model, (weft.ones(4, 3),), kwargs={"other": weft.ones(2)})


class Named:
    """As PyTorch's Dim is."""

    __name__ = "rows"


@pytest.mark.parametrize("shapes", [
    {"x": {0: "rows"}, "y": {0: "rows", 1: 2}}, ({0: Named()}, {0: Named()}), {"x": ["rows", None], "y": ("rows", None)}
])
def test_dynamic_shapes(shapes: Any) -> None:
    def joined(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        return weft.cat([x, y], 1)

    for names in (None, ["left", "right"]):
        program = weft.onnx.export(
            joined, (weft.ones(4, 3), weft.ones(4, 2)), dynamic_shapes=shapes, input_names=names
        )
        assert [dims(i) for i in program.model_proto.graph.input] == [["rows", 3], ["rows", 2]]
        x, y = weft.randn(7, 3), weft.randn(7, 2)
        assert weft.equal(program(x, y), joined(x, y))
    with pytest.raises(weft.errors.ValueProblem, match="dynamic_shapes names z"):
        weft.onnx.export(joined, (weft.ones(4, 3), weft.ones(4, 2)), dynamic_shapes={"z": {0: "rows"}})


def test_sizes_without_a_name_and_in_a_tuple() -> None:
    def total(pair: tuple[weft.Tensor, weft.Tensor]) -> weft.Tensor:
        return pair[0].sum() + pair[1].sum()

    program = weft.onnx.export(
        total, ((weft.ones(2, 3), weft.ones(4)),), dynamic_shapes={"pair": ({1: "DYNAMIC"}, {0: object()})}
    )
    assert [dims(i) for i in program.model_proto.graph.input] == [[2, "DYNAMIC"], ["pair_1_0"]]
    assert program(weft.ones(2, 5), weft.ones(3)).item() == 13


def test_modes_of_the_model(model: Scaled) -> None:
    x = weft.ones(4, 3)
    model.train()
    model.inner.eval()
    program = weft.onnx.export(model, x, training=TrainingMode.EVAL, verify=True)
    assert "Dropout" not in str(program.model_proto.graph) and [m.training for m in model.modules()] == [
        True, False, True
    ]
    np.testing.assert_allclose(program(x).numpy(), model.eval()(x).detach().numpy(), rtol=1e-5)
    with weft.onnx.select_model_mode_for_export(model, TrainingMode.TRAINING):
        assert all(m.training for m in model.modules())
    assert not any(m.training for m in model.modules())


def test_what_is_not_there_is_refused(model: Scaled, capsys: pytest.CaptureFixture[str]) -> None:
    x = weft.ones(4, 3)
    for name, value in {
        "report": True, "profile": True, "dump_exported_program": True, "custom_translation_table": {weft.exp: None},
        "export_modules_as_functions": True, "operator_export_type": OperatorExportTypes.ONNX_ATEN,
    }.items():
        with pytest.raises(OnnxExporterError, match=f"export\\(\\) has no {name}"):
            weft.onnx.export(model, x, **{name: value})
    weft.onnx.export(model, x, verbose=True)
    assert "Gemm" in capsys.readouterr().out
