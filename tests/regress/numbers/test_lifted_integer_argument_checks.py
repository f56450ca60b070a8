"""What eager refuses for an integer is refused by a program that takes that integer as an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.support import pytree

X = weft.arange(12.0).reshape(3, 4)

# each with integers that eager takes, then some that it refuses
CASES: dict[str, tuple[Callable[[int], Any], list[int], list[int]]] = {
    "randint": (lambda n: weft.randint(n, (3,)), [5, 7, 3], [0, -2]),
    "randint, low": (lambda n: weft.randint(n, 5, (3,)), [1, 2, -3], [5, 6]),
    "randint, small": (lambda n: weft.randint(0, n, (3,), dtype=weft.uint8), [5, 256, 3], [257, 0]),
    "randint_like": (lambda n: weft.randint_like(X, n), [5, 7, 3], [0, -2]),
    "as_strided_scatter": (
        lambda n: weft.as_strided_scatter(X, weft.ones(2, 2), (2, 2), (n, 1)), [4, 3, 2], [1, 0]
    ),
    "as_strided_scatter, not nested": (
        lambda n: weft.as_strided_scatter(X, weft.ones(2, 2), (2, 2), (2, n)), [3, 5, 1], [2, 0]
    ),
    "conv_transpose1d": (lambda n: F.conv_transpose1d(weft.ones(1, 1, 3), weft.ones(1, 1, 2), padding=n), [0, 1], [-1]),
    "conv_transpose2d, groups": (
        lambda n: F.conv_transpose2d(weft.ones(1, 4, 3, 3), weft.ones(4, 1, 2, 2), groups=n), [1, 2, 4], [3, 5]
    ),
    "linspace": (lambda n: weft.linspace(0, 1, n), [5, 3, 0], [-1]),
    "fftfreq": (lambda n: weft.fft.fftfreq(n), [5, 3], [-1]),
    "split": (lambda n: X.split(n), [2, 3], [0, -1]),
    "split_with_sizes": (lambda n: X.split((n, 3 - n)), [2, 1], [-1, 4]),
    "vander": (lambda n: weft.vander(weft.ones(3), n), [2, 3], [-1]),
    "bincount": (lambda n: weft.bincount(weft.tensor([1, 2]), minlength=n), [5, 3], [-1]),
    "one_hot": (lambda n: F.one_hot(weft.tensor([1, 2]), n), [5, 3], [-2]),
}


class State:
    n = 0


@pytest.mark.parametrize("name", CASES)
def test_refusals(name: str) -> None:
    function, taken, refused = CASES[name]
    state = State()
    compiled = weft.compile(lambda: function(state.n))
    for state.n in (*taken, *taken):
        weft.manual_seed(0)
        expected = pytree.flatten(function(state.n))[0]
        weft.manual_seed(0)
        for found, wanted in zip(pytree.flatten(compiled())[0], expected, strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
    for state.n in refused:
        with pytest.raises(weft.WeftError) as eager:
            function(state.n)
        with pytest.raises(type(eager.value)):
            compiled()
