"""Exported models froze how many parts a dynamic axis is split into, and refused functions of sizes that ONNX can
compute."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

onnx = pytest.importorskip("onnx")
Function = Callable[[weft.Tensor], weft.Tensor]


def example(rows: int) -> weft.Tensor:
    return weft.arange(float(rows * 3)).reshape(rows, 3)


def exported(function: Any, path: Any, rows: int = 4) -> Callable[[weft.Tensor], Any]:
    from onnx.reference import ReferenceEvaluator

    weft.onnx.export(function, (example(rows),), str(path), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    model = ReferenceEvaluator(str(path))
    return lambda x: model.run(None, {"x": x.numpy()})[0]


FUNCTIONS: dict[str, Function] = {
    "remainder": lambda x: x * math.remainder(x.shape[0] / 2, 1.5),
    "remainder of negative": lambda x: x * math.remainder(-x.shape[0], 4.0),
    "hypot": lambda x: x * math.hypot(x.shape[0], 3.0),
    "log": lambda x: x * math.log(x.shape[0], 3),
    "log to a size": lambda x: x * math.log(7.5, x.shape[0]),
    "round": lambda x: x * round(x.shape[0] * 0.05, 1),
    "round of negative": lambda x: x * round(-x.shape[0] / 7, 3),
    "linspace": lambda x: weft.linspace(-1, 2, x.shape[0]),
    "linspace to a size": lambda x: weft.linspace(0.5, x.shape[0] / 3, 5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_sizes(name: str, tmp_path: Any) -> None:
    function = FUNCTIONS[name]
    run = exported(function, tmp_path / "m.onnx")
    for rows in (4, 2, 5, 6, 7, 87):
        expected = function(example(rows)).numpy()
        assert np.allclose(run(example(rows)), expected, 1e-6, 1e-6) and run(example(rows)).shape == expected.shape


def test_rounding_is_pythons(tmp_path: Any) -> None:
    """Also where the product with a power of ten is a tie, and the number is none."""
    numbers = [4.35, 0.125, 2.675, 1.115, -4.35, 0.285, 8.345, 0.0, *[random.Random(7).randrange(999) / 20]]
    for i, number in enumerate(numbers):
        digits = 1 + i % 2
        run = exported(lambda x, k=number, d=digits: x * round((x.shape[0] - 3) * k, d), tmp_path / f"{i}.onnx")
        for rows in (4, 5, 9):
            assert run(example(rows)).ravel()[1] == np.float32(round((rows - 3) * number, digits))


SPLITS: dict[str, tuple[Function, set[int]]] = {  # and the numbers of rows that give two parts
    "split": (lambda x: x.split(2)[1] * 2, {3, 4}),
    "split unpacked": (lambda x: weft.cat([2 * p for p in x.split(3)]), {4, 5, 6}),
    "chunk": (lambda x: weft.cat(x.chunk(2)[::-1]), {2, 3, 4, 5, 6, 7}),
}


@pytest.mark.parametrize("name", SPLITS)
def test_other_numbers_of_parts_are_refused_when_run(name: str, tmp_path: Any) -> None:
    function, fitting = SPLITS[name]
    run = exported(function, tmp_path / "m.onnx")
    for rows in (4, 2, 3, 5, 6, 7):
        if rows in fitting:
            assert np.array_equal(run(example(rows)), function(example(rows)).numpy())
        else:
            with pytest.raises(Exception, match="reshape"):
                run(example(rows))


def test_number_of_parts_alone(tmp_path: Any) -> None:
    with pytest.raises(weft.WeftError, match="how many tensors there are hangs on a dynamic size"):
        exported(lambda x: x * len(x.split(2)), tmp_path / "m.onnx")
    scripted = weft.jit.CompilationUnit("def f(x: Tensor):\n    return x * len(x.split(2)) + len(x.chunk(3))\n").f
    run = exported(scripted, tmp_path / "s.onnx")
    for rows in (1, 2, 3, 4, 7, 8):
        assert np.array_equal(run(example(rows)), scripted(example(rows)).numpy())
