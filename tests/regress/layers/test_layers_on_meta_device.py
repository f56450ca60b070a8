"""Functions and layers that make tensors of their own (tables of places, first states, masks) make them on their
input's device: shapes are found on meta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.nn import functional as F


def on_meta(*shape: int) -> weft.Tensor:
    return weft.empty(shape, device="meta")


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "adaptive_max_pool1d": (lambda: F.adaptive_max_pool1d(on_meta(2, 3, 8), 3), (2, 3, 3)),
    "adaptive_max_pool2d, places": (
        lambda: F.adaptive_max_pool2d(on_meta(2, 3, 8, 7), 3, return_indices=True)[1], (2, 3, 3, 3)
    ),
    "fractional_max_pool2d": (lambda: F.fractional_max_pool2d(on_meta(2, 3, 8, 8), 2, output_size=4), (2, 3, 4, 4)),
    "fold": (lambda: F.fold(on_meta(1, 8, 16), (5, 5), 2), (1, 2, 5, 5)),
    "alpha_dropout": (lambda: F.alpha_dropout(on_meta(3), 0.5, True), (3,)),
    "multi_margin_loss": (
        lambda: F.multi_margin_loss(on_meta(3, 4), weft.zeros(3, dtype=weft.int64, device="meta"), reduction="none"),
        (3,),
    ),
    "LSTM": (lambda: nn.LSTM(3, 4, device="meta")(on_meta(5, 2, 3))[1][1], (1, 2, 4)),
    "GRUCell": (lambda: nn.GRUCell(3, 4, device="meta")(on_meta(2, 3)), (2, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_shapes_are_found_without_data(name: str) -> None:
    make, shape = CASES[name]
    found = make()
    assert tuple(found.shape) == shape and found.device == weft.device("meta")
