"""What names strides of its own was resolved in the memory of a permuted value's root, and read other elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def resized(x: Any) -> Any:
    y = x.t() * 2
    y.resize_((2,))
    return y * 1


def strided(x: Any) -> Any:
    return (x.t() * 2).as_strided((3,), (1,), 1) * 1


def of_a_row(x: Any) -> Any:
    return (x * 2)[1].as_strided((2,), (1,), 1) * 1


@pytest.mark.parametrize("function", [resized, strided, of_a_row])
def test_every_back_end_reads_what_eager_mode_reads(function: Callable[..., Any], rng: np.random.Generator) -> None:
    dims = tuple(int(n) for n in rng.integers(2, 6, 2))
    x = weft.tensor(rng.standard_normal(dims))
    expected = function(x)
    for backend in ("interpret", "numpy", "llvm"):
        np.testing.assert_array_equal(weft.compile(function, backend=backend)(x).numpy(), expected.numpy())
