"""Tensors on device meta around compiled functions: arguments give types, as in eager mode; programs have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import CaptureError


def test_meta_arguments_give_types(rng: np.random.Generator) -> None:
    rows = int(rng.integers(1, 9))
    step = weft.compile(lambda x, w: (x @ w).relu().sum(0))
    found = step(weft.empty(rows, 3, device="meta"), weft.empty(3, 4, device="meta"))
    assert found.device == "meta" and found.shape == (4,)
    assert step(weft.ones(rows, 3), weft.ones(3, 4)).tolist() == [3.0 * rows] * 4  # later calls are programs
    assert step(weft.empty(2, 3, device="meta"), weft.empty(3, 5, device="meta")).shape == (5,)


def test_a_meta_tensor_from_outside_is_returned_as_it_is() -> None:
    kept = weft.empty(3, device="meta")
    step = weft.compile(lambda x: (x * kept.shape[0], kept))
    for n in (2, 5):
        value, same = step(weft.ones(n))
        assert same is kept and value.tolist() == [3.0] * n


OUTSIDE = weft.empty(3, device="meta")
MADE = "makes a tensor on the meta device, and its program"
READ = r"tensor of shape \[3\] on the meta device has no values"
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "read": (lambda x: x + OUTSIDE, READ),
    "written": (lambda x: OUTSIDE.add_(x), READ),
    "a factory": (lambda x: x + weft.ones(3, device="meta").shape[0], MADE),
    "from data": (lambda x: weft.tensor([1.0], device="meta"), MADE),
    "moved": (lambda x: x.to("meta"), MADE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_program_cannot_do_names_the_line(name: str) -> None:
    function, text = REFUSED[name]
    with pytest.raises(CaptureError, match=rf"test_meta_tensors_in_compiled_function.py:\d+: .*{text}"):
        weft.compile(function)(weft.ones(3))
