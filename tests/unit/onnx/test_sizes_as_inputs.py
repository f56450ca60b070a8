"""Loaded models whose sizes, bounds and counts are inputs: compiled, one program serves every value."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import weft

onnx = pytest.importorskip("onnx")
helper, Proto = onnx.helper, onnx.TensorProto


def ints(*values: int) -> weft.Tensor:
    return weft.tensor(values, dtype=weft.int64)


X = weft.arange(12.0)
CASES: dict[str, list[tuple[Any, ...]]] = {
    "Reshape": [(X, ints(3, 4)), (X, ints(4, 3)), (X, ints(2, -1)), (X, ints(6, 2))],
    "Expand": [(weft.ones(1), ints(3, 4)), (weft.ones(1), ints(4, 3)), (weft.ones(1), ints(2, 1))],
    "ConstantOfShape": [(ints(3, 4),), (ints(4, 3),), (ints(2, 0),)],
    "Tile": [(X, ints(3)), (X, ints(1)), (X, ints(2))],
    "Slice": [(X, ints(0), ints(5)), (X, ints(3), ints(-1)), (X, ints(-4), ints(100))],
    "Pad": [(X, ints(0, 5)), (X, ints(1, 2)), (X, ints(0, 0))],
    "Range": [(*map(weft.tensor, each),) for each in ((0, 5, 1), (1, 7, 2), (0, 0, 1))],
    "Unsqueeze": [(X, ints(0)), (X, ints(1)), (X, ints(0))],
    "ReduceSum": [(X.reshape(3, 4), ints(0)), (X.reshape(3, 4), ints(1)), (X.reshape(2, 6), ints(0))],
}


def loaded(nodes: list[Any], arguments: tuple[Any, ...], path: Path) -> Any:
    inputs = [
        helper.make_tensor_value_info(
            f"i{k}", Proto.FLOAT if a.dtype is weft.float32 else Proto.INT64, [f"d{k}_{n}" for n in range(a.ndim)]
        )
        for k, a in enumerate(arguments)
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", Proto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return weft.onnx.load(path)


@pytest.mark.parametrize("name", CASES)
def test_numbers_that_are_inputs(name: str, tmp_path: Path) -> None:
    calls = CASES[name]
    node = helper.make_node(name, [f"i{k}" for k in range(len(calls[0]))], ["y"])
    model = loaded([node], calls[0], tmp_path / "m.onnx")
    for options in ({}, {"split": True}):
        compiled = weft.compile(model, **options)
        for arguments in (*calls, *calls):
            assert compiled(*arguments).tolist() == model(*arguments).tolist()


def test_numbers_that_the_model_computes(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["i1", "i1"], ["twice"]),
        helper.make_node("Slice", ["i0", "i1", "twice"], ["part"]),
        helper.make_node("Pad", ["part", "pads"], ["y"]),
        helper.make_node("Concat", ["i1", "twice"], ["pads"], axis=0),
    ]
    nodes = [nodes[0], nodes[3], nodes[1], nodes[2]]
    model = loaded(nodes, (X, ints(1)), tmp_path / "m.onnx")
    compiled = weft.compile(model)
    for n in (1, 4, 2, 0):
        assert compiled(X, ints(n)).tolist() == model(X, ints(n)).tolist()


class Scaled(weft.nn.Module):
    def __init__(self, number: Any) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return x * self.number(x.shape[0])


@pytest.mark.parametrize(
    "number",
    [
        lambda n: 0.5 * n, lambda n: 2.0 / n, lambda n: 10.0 - n, lambda n: 2.0**n, lambda n: n // 0.1,
        lambda n: 9.5 // n, lambda n: 9.5 % n, lambda n: n % -2.5,
        lambda n: -(n / 4), lambda n: math.sqrt(n), lambda n: int(n * 0.6),
        lambda n: round(n / 4), lambda n: max(n * 0.5, 2.0), lambda n: math.log(n + 1),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("functions_of_the_module_seen")  # those that take symbols are looked for
def test_numbers_of_dynamic_axes_are_written(number: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    weft.onnx.export(Scaled(number), (weft.ones(4),), path, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    model = weft.onnx.load(path)
    for n in (4, 6, 3, 9):
        weft.testing.assert_close(model(weft.ones(n)), Scaled(number)(weft.ones(n)))
