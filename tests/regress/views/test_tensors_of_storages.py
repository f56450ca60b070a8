"""`weft.tensor(storage, dtype=...)` converted the numbers of single bytes to the dtype, in silence; in PyTorch the
memory is shown as elements of it. Storages of tensors had no `untyped()`, and no tensors were made of them."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64, weft.int16, weft.uint8, weft.complex64])
def test_bytes_are_elements_of_the_dtype(dtype: weft.dtype, rng: np.random.Generator) -> None:
    numbers = rng.integers(-9, 9, int(rng.integers(2, 7))).astype(dtype.numpy)
    x = weft.from_numpy(numbers.copy())
    for storage in (x.untyped_storage(), x.storage().untyped(), x.untyped_storage().untyped()):
        copy = weft.tensor(storage, dtype=dtype)
        np.testing.assert_array_equal(copy.numpy(), numbers)
        assert storage.tolist() == list(numbers.tobytes())
    copy.zero_()
    np.testing.assert_array_equal(x.numpy(), numbers)
    typed = weft.tensor(x.storage())
    assert typed.dtype is dtype
    np.testing.assert_array_equal(typed.numpy(), numbers)


def test_parts_and_what_is_left_over(rng: np.random.Generator) -> None:
    numbers = rng.integers(-9, 9, 5).astype(np.int16)
    storage = weft.from_numpy(numbers).untyped_storage()
    np.testing.assert_array_equal(weft.tensor(storage[2:9], dtype=weft.int16).numpy(), numbers[1:4])
    np.testing.assert_array_equal(weft.tensor(storage).numpy(), numbers[:4].view(np.int64))
