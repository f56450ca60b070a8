"""asarray and frombuffer: what shares memory, what is copied, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import weft

Rng = np.random.Generator


def test_what_asarray_shares(rng: Rng) -> None:
    array = rng.standard_normal(4)
    shared, copied = weft.asarray(array), weft.asarray(array, copy=True)
    array[0] = 7
    assert shared[0] == 7 and copied[0] != 7
    x = weft.ones(2, requires_grad=True)
    assert weft.asarray(x) is x
    assert not weft.asarray(x, requires_grad=False).requires_grad
    assert weft.asarray([1.0], requires_grad=True).requires_grad
    assert weft.asarray(array, dtype=weft.float32).dtype is weft.float32
    assert weft.asarray(bytearray(8), dtype=weft.int16).shape == (4,)
    for refused in (lambda: weft.asarray([1], copy=False), lambda: weft.asarray(array, dtype=weft.int8, copy=False)):
        with pytest.raises(ValueError, match="alias"):
            refused()


def test_tensors_over_bytes(rng: Rng) -> None:
    values = rng.integers(-100, 100, 6).astype(np.int16)
    memory = bytearray(values.tobytes())
    x = weft.frombuffer(memory, dtype=weft.int16)
    assert x.tolist() == values.tolist()
    x[1] = 5
    assert np.frombuffer(memory, np.int16)[1] == 5
    assert weft.frombuffer(memory, dtype=weft.int16, count=2, offset=4).tolist() == values[2:4].tolist()
    with pytest.raises(RuntimeError, match="read-only"):
        weft.frombuffer(bytes(4), dtype=weft.uint8).add_(1)
    for options in ({"offset": 1}, {"count": 7}, {"offset": 12}, {"count": 0}):
        with pytest.raises(ValueError, match="buffer length"):
            weft.frombuffer(memory, dtype=weft.int16, **options)
    with pytest.raises(ValueError, match="protocol"):
        weft.frombuffer(3, dtype=weft.uint8)
