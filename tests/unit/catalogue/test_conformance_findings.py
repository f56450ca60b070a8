"""Corners that PyTorch's operator database found: empty rows, borders that cut and wrap, indices from the end,
angles of complex sums."""

from __future__ import annotations

import random

import numpy as np
import pytest

import weft
from weft.nn import functional as F


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax_over_an_empty_dim_is_empty(function: object) -> None:
    x = weft.zeros(3, 0, requires_grad=True)
    out = function(x, dim=1)  # type: ignore[operator]
    assert tuple(out.shape) == (3, 0)
    out.sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


def test_circular_borders_wrap_what_negative_padding_leaves() -> None:
    x = weft.randn(1, 2, random.randint(4, 7))
    for before, after in ((2, -1), (-1, 2), (-1, -1), (1, 3)):
        kept = x.numpy()[:, :, max(-before, 0) : x.shape[2] - max(-after, 0)]
        expected = np.pad(kept, ((0, 0), (0, 0), (max(before, 0), max(after, 0))), mode="wrap")
        np.testing.assert_array_equal(F.pad(x, (before, after), mode="circular").numpy(), expected)


def test_take_along_dim_counts_from_the_end() -> None:
    x = weft.randn(3, 4)
    index = weft.randint(-4, 4, (3, 2))
    np.testing.assert_array_equal(
        weft.take_along_dim(x, index, 1).numpy(), np.take_along_axis(x.numpy(), index.numpy(), 1)
    )


def test_logaddexp_of_complex_numbers_goes_on_from_the_greater() -> None:
    a, b = weft.tensor([1 - 1j, 0.5 - 3j]), weft.tensor([2 + 8j, 0.7 + 3j])
    greater, less = b.numpy().astype(np.complex128), a.numpy().astype(np.complex128)
    np.testing.assert_allclose(weft.logaddexp(a, b).numpy(), np.log1p(np.exp(less - greater)) + greater, rtol=1e-5)


def test_pooling_wants_elements_in_every_channel() -> None:
    for empty in ((2, 0), (1, 3, 0)):
        with pytest.raises(RuntimeError, match="optional 0 dim batch size"):
            F.max_pool1d(weft.zeros(empty), 1)
    assert tuple(F.max_pool1d(weft.zeros(0, 3, 4), 2).shape) == (0, 3, 2)


def test_masked_fill_refuses_complex_numbers_in_real_tensors() -> None:
    with pytest.raises(RuntimeError, match="without overflow"):
        weft.ones(2).masked_fill(weft.tensor(True), weft.tensor(1j))


def test_singular_values_and_their_gradients() -> None:
    x = weft.randn(2, 4, 3, dtype=weft.float64, requires_grad=True)
    U, S, Vh = weft.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(((U * S.unsqueeze(-2)) @ Vh).detach().numpy(), x.detach().numpy(), atol=1e-12)
    weft.linalg.svdvals(x).square().sum().backward()  # the sum of squares of all elements
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy(), rtol=1e-10)
    full = weft.linalg.svd(x.detach())
    assert tuple(full.U.shape) == (2, 4, 4) and tuple(full.Vh.shape) == (2, 3, 3)
