"""Tensor(array) has the default dtype, whatever the array's, and memory of its own; from_numpy takes a memmap.

Found by cleanrl's ppo.py (`torch.Tensor(next_done)` of bools, then `1.0 - next_done`) and by nanoGPT's train.py
(`torch.from_numpy` of a slice of a memmap).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft

DTYPES = ["bool", "int8", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_default_dtype_and_memory_of_its_own(dtype: str, rng: np.random.Generator) -> None:
    array = rng.integers(0, 2, (3, 2)).astype(dtype)
    x = weft.Tensor(array)
    assert x.dtype is weft.get_default_dtype()
    array[...] = ~array if dtype == "bool" else array + 1
    np.testing.assert_array_equal((1.0 - x).numpy(), np.equal(array.astype("float32") % 2, 1))


def test_of_the_default_dtype_that_is_set() -> None:
    try:
        weft.set_default_dtype(weft.float64)
        assert weft.Tensor(np.arange(3)).dtype is weft.float64
    finally:
        weft.set_default_dtype(weft.float32)
    assert weft.Tensor(np.zeros((2, 0), bool)).shape == (2, 0)
    with pytest.raises(TypeError, match="must be a sequence"):
        weft.Tensor(np.float64(3))


def test_in_a_compiled_function() -> None:
    array = np.array([True, False])

    @weft.compile
    def step(x: weft.Tensor) -> weft.Tensor:
        return x * weft.Tensor(array)

    for _ in range(3):
        assert step(weft.full((2,), 3.0)).tolist() == [3.0, 0.0]


def test_memory_of_a_file(tmp_path: Path) -> None:
    np.arange(10, dtype=np.uint8).tofile(tmp_path / "ids.bin")
    ids = np.memmap(tmp_path / "ids.bin", dtype=np.uint8, mode="r+")
    x = weft.from_numpy(ids)
    assert (x[2:5].clone() + 1).tolist() == [3, 4, 5]
    x[0] = 7
    assert ids[0] == 7
    rows = [weft.from_numpy(ids[i : i + 3].astype(np.int64)) for i in (1, 4)]
    assert weft.stack(rows).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert weft.tensor(ids).tolist() == weft.as_tensor(ids).tolist() == ids.tolist()
