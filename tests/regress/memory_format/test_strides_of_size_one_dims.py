"""What users see of tensors beside their values: versions after out=, strides of dims of size 1. As PyTorch's."""

from __future__ import annotations

import pytest

import weft


@pytest.mark.parametrize("device", ["cpu", "lazy", "meta"])
def test_out_that_is_resized_is_written_once(device: str) -> None:
    x, out = weft.ones(2, 3, device=device), weft.empty(5, device=device)
    weft.add(x, x, out=out)
    assert out.shape == (2, 3) and out._version == 1


def test_expand_keeps_the_strides_of_dims_that_stay_1() -> None:
    x = weft.ones(4, 1)
    assert x.expand(3, 4, 1).stride() == (0, 1, 1)
    assert x.expand(1, 4, 5).stride() == (4, 1, 0)
    assert weft.ones(()).expand(1).stride() == (0,)
    assert x.expand(3, 4, 1).view(weft.uint8).shape == (3, 4, 4)


@pytest.mark.parametrize("device", ["cpu", "lazy", "meta"])
def test_the_matrix_transpose_of_a_0_dim_tensor_is_itself(device: str) -> None:
    assert weft.ones((), device=device).mT.shape == weft.ones((), device=device).mH.shape == ()
    with pytest.raises(RuntimeError, match="only supported on matrices or batches of matrices"):
        _ = weft.ones(2, device=device).mT
