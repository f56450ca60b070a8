"""`x.view(dtype)` by a larger dtype went on where a stride was no multiple of it, and showed other elements; a view
without elements lost its strides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor

WAYS: dict[str, Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]]] = {
    "eager": lambda f: f, "compiled": weft.compile,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_stride_that_does_not_divide_is_refused(way: str, rng: np.random.Generator) -> None:
    rows = int(rng.integers(2, 5))
    x = weft.from_numpy(rng.integers(0, 9, (rows, 2)).astype(np.uint8))
    windows = WAYS[way](lambda x: x.as_strided((rows, 2), (1, 1)).view(weft.int16) + 0)
    with pytest.raises(RuntimeError, match=r"self.stride\(0\) must be divisible by 2"):
        windows(x)
    shown = WAYS[way](lambda x: x.view(weft.int16) + 0)(x)
    np.testing.assert_array_equal(shown.numpy(), x.numpy().view(np.int16))


def test_strides_of_no_elements(rng: np.random.Generator) -> None:
    a, b = rng.integers(2, 7, 2).tolist()
    x = weft.zeros(0, a, b, dtype=weft.float64)
    assert x.view(weft.uint8).stride() == (8 * a * b, 8 * b, 1)
    assert x.view(weft.float32).shape == (0, a, 2 * b)
    assert weft.zeros(a, 0).view(weft.uint8).stride() == (4, 1)


def test_what_is_too_large_and_what_stays(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(3))
    with pytest.raises(RuntimeError, match="fit into no memory"):
        x.resize_([0, 4, 2**61])
    with pytest.raises(TypeError, match="does not support deleting"):
        del x[0]
    with weft.inference_mode():
        z = weft.zeros(2)
    with pytest.raises(RuntimeError, match="outside InferenceMode"):
        weft.autograd.graph.increment_version(z)
