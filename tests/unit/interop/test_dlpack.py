"""Memory shared with NumPy: DLPack both ways, __array_interface__, and what must not be shared."""

from __future__ import annotations

import random

import numpy as np
import pytest

import weft

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"
)


@pytest.mark.parametrize("name", DTYPES)
def test_both_ways_without_a_copy(name: str) -> None:
    array = np.zeros((random.randint(2, 4), 3), name)
    tensor = weft.from_dlpack(array)
    assert tensor.dtype is getattr(weft, name) and tuple(tensor.shape) == array.shape
    tensor[1, 2] = 1
    assert array[1, 2] == 1
    back = np.from_dlpack(tensor)
    back[0, 0] = 1
    assert tensor[0, 0].item() == 1


def test_strides_and_offsets_are_kept() -> None:
    x = weft.arange(24).reshape(4, 6)[1:, ::2].t()
    np.testing.assert_array_equal(np.from_dlpack(x), x.numpy())
    assert weft.from_dlpack(x.numpy()).stride() == x.stride()
    assert weft.from_dlpack(x).data_ptr() == x.data_ptr()


def test_copy() -> None:
    array = np.arange(3.0)
    mine = weft.from_dlpack(array, copy=True)
    mine[0] = 9
    assert array[0] == 0
    tensor = weft.ones(3)
    capsule_of_copy = weft.from_dlpack(tensor, copy=True)
    capsule_of_copy[0] = 5
    assert tensor[0].item() == 1
    with pytest.raises(ValueError, match="copy=False"):
        weft.from_dlpack(array[::-1], copy=False)
    assert weft.from_dlpack(array[::-1]).tolist() == [2, 1, 0]


def test_read_only_memory_stays_so() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = weft.from_dlpack(array)
    assert (tensor + 1).tolist() == [1, 2, 3]
    for write in (lambda: tensor.add_(
        1
    ), lambda: tensor.mul_(weft.ones(3, dtype=weft.float64)), lambda: tensor.zero_(), lambda: tensor.__setitem__(0, 1)):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    assert array.tolist() == [0, 1, 2] and tensor._version == 0
    weft.from_dlpack(array, copy=True).add_(1)


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        weft.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="bfloat16"):
        weft.ones(2, dtype=weft.bfloat16).__dlpack__()
    with pytest.raises(BufferError, match="no stream"):
        weft.ones(2).__dlpack__(stream=1)
    with pytest.raises(BufferError, match="not on"):
        weft.ones(2).__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="no memory"):
        weft.empty(2, device="meta").__dlpack_device__()
    with pytest.raises(TypeError, match="__dlpack__"):
        weft.from_dlpack([1, 2])
    assert weft.ones(2).__dlpack_device__() == (1, 0)


def test_memory_on_another_device_is_refused() -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **options: object) -> object:
            raise AssertionError("never asked")

    with pytest.raises(ValueError, match="device type 2"):
        weft.from_dlpack(Elsewhere())


def test_arrays_of_tensors_share_memory() -> None:
    x = weft.arange(6).reshape(2, 3).t()
    shared = np.asarray(x)
    shared[0, 0] = 7
    assert x[0, 0].item() == 7
    assert shared.__array_interface__["data"][0] == x.data_ptr() and not hasattr(x, "__array_interface__")
    assert np.asarray(weft.ones(2, dtype=weft.bfloat16)).astype(np.float32).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(weft.ones(2, requires_grad=True))
