"""weft.interop.safetensors against the safetensors library."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy as theirs

import weft
from weft.interop import safetensors as ours

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def arrays() -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(random.randrange(2**32))
    made = {
        name: np.asarray(rng.integers(0, 9, size=rng.integers(0, 4, size=rng.integers(0, 4))), name) for name in DTYPES
    }
    return made | {"a/b.c": np.ones(3, np.float32)}


def test_our_files_are_theirs() -> None:
    expected = arrays()
    found = theirs.load(ours.save({k: weft.from_numpy(v.copy()) for k, v in expected.items()}))
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_their_files_are_ours(tmp_path: Path) -> None:
    expected = arrays()
    theirs.save_file(expected, str(tmp_path / "f"), {"key": "value"})
    found = ours.load_file(tmp_path / "f")
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), array)
        found[name].zero_()  # the memory is the tensor's own
    assert ours.load_file(tmp_path / "f", device="meta")["a/b.c"].device == "meta"


def test_halves_metadata_and_layout() -> None:
    x = weft.randn(3, 4)
    content = ours.save({"b": x.to(weft.bfloat16), "t": x.t(), "z": weft.tensor([1 + 2j])}, {"who": "me"})
    found = ours.load(content)
    assert weft.equal(found["b"], x.to(weft.bfloat16)) and found["t"].is_contiguous() and weft.equal(found["t"], x.t())
    assert found["z"].tolist() == [1 + 2j]
    assert ours.decode(bytearray(content))[1] == {"who": "me"}


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="no complex128"):
        ours.save({"z": weft.zeros(1, dtype=weft.complex128)})
    with pytest.raises(TypeError, match="'x' must be a Tensor"):
        ours.save({"x": np.ones(1)})  # type: ignore[dict-item]
