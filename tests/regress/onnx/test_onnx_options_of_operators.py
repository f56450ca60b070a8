"""Options with which an operator could not be exported, though ONNX has them: no batch, a divisor, places in pooling,
the old names of a reduction, a dtype of a norm; and what was written with other values, and so refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

pytest.importorskip("onnx")
F = weft.nn.functional
X, P = (2, 4, 7, 6), (3, 5)  # an image, and a table of scores
CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "transposed, no batch": (lambda x: F.conv_transpose2d(x[0], x.new_ones(4, 2, 3, 3), x.new_ones(2)), X),
    "same padding, no batch": (lambda x: F.conv2d(x[0], x.new_ones(2, 4, 3, 3), padding="same"), X),
    "divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3, padding=1), X),
    "divisor, volume": (lambda x: F.avg_pool3d(x, 2, divisor_override=7), (2, 3, 4, 4, 6)),
    "places": (weft.nn.MaxPool2d(2, return_indices=True), X),
    "places, no batch": (lambda x: F.max_pool2d(x[0], 3, 2, 1, 1, True, True), X),
    "places, rows": (lambda x: F.max_pool1d(x, 3, 2, padding=1, ceil_mode=True, return_indices=True), (2, 3, 9)),
    "nearest-exact": (lambda x: F.interpolate(x, size=(5, 9), mode="nearest-exact"), X),
    "corners by a factor": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True), X),
    "extreme of a number": (lambda x: weft.max(x, 0), ()),
    "running extreme of a number": (lambda x: weft.cummin(x, 0), ()),
    "logaddexp2": (lambda x: weft.logaddexp2(x, x.flip(0)), P),
    "conj_physical": (weft.conj_physical, P),
    "norm in float64": (lambda x: weft.linalg.vector_norm(x, 2, 1, dtype=weft.float64), P),
    "cross entropy": (lambda x: F.binary_cross_entropy(x.sigmoid(), x.cos().sigmoid(), x.exp()), P),
    "sum by its old name": (lambda x: F.cross_entropy(x, weft.tensor([0, 4, 2]), size_average=False), P),
    "none by its old name": (lambda x: F.nll_loss(x.log_softmax(1), weft.tensor([0, 4, 2]), reduce=False), P),
    "squares, summed": (lambda x: F.mse_loss(x, x * 2, size_average=False), P),
    "gaps, none": (lambda x: F.l1_loss(x, x * 2, reduce=False), P),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_exported(name: str, rng: np.random.Generator) -> None:
    function, dims = CASES[name]
    x = weft.from_numpy(np.asarray(rng.normal(size=dims), np.float32))
    program = weft.onnx.export(function, (x,))
    other = weft.from_numpy(np.asarray(rng.normal(size=dims), np.float32))
    for value in (x, other):
        for ours, theirs in zip(flat(function(value)), flat(program(value)), strict=True):
            assert ours.dtype is theirs.dtype and ours.shape == theirs.shape
            np.testing.assert_allclose(theirs.numpy(), ours.numpy(), rtol=1e-4, atol=1e-5)


def flat(value: Any) -> list[weft.Tensor]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def test_logaddexp_of_infinities() -> None:
    inf = float("inf")
    a, b = weft.tensor([inf, -inf, inf, 1.0]), weft.tensor([inf, -inf, -inf, inf])
    for function, log in ((weft.logaddexp, np.logaddexp), (weft.logaddexp2, np.logaddexp2)):
        program = weft.onnx.export(lambda a, b, f=function: f(a, b), (weft.ones(4), weft.ones(4)))
        np.testing.assert_array_equal(program(a, b).numpy(), log(a.numpy(), b.numpy()))
