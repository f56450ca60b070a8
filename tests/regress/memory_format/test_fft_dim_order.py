"""Transforms over several dims leave them innermost in their order in the tensor, whatever order they are named in,
with the last of a real signal the innermost of all, as PyTorch does; in every mode."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.regress.ways import WAYS

ORDERS = {  # dims that are transformed -> the order in memory, outermost first, of whole and of real signals
    (0, 2): ((1, 0, 2), (1, 0, 2)),
    (2, 0): ((1, 0, 2), (1, 2, 0)),
    (1, 0): ((2, 0, 1), (2, 1, 0)),
    (2, 1, 0): ((0, 1, 2), (1, 2, 0)),
    (1, 0, 2): ((0, 1, 2), (0, 1, 2)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dims", ORDERS)
def test_orders(dims: tuple[int, ...], way: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal(tuple(int(d) for d in rng.integers(3, 6, 3)))
    for name, order in zip(("fftn", "rfftn"), ORDERS[dims], strict=True):
        out = WAYS[way](lambda t, name=name: getattr(weft.fft, name)(t, dim=dims), weft.from_numpy(x))
        assert out.permute(order).is_contiguous(), (name, out.stride())
        if way != "meta":
            np.testing.assert_allclose(out.cpu().numpy(), getattr(np.fft, name)(x, axes=dims), atol=1e-9)
    sizes = tuple(x.shape[d] for d in dims)
    half = WAYS[way](lambda t: weft.fft.irfftn(t, sizes, dims), weft.from_numpy(np.fft.rfftn(x, axes=dims)))
    if way != "meta":
        np.testing.assert_allclose(half.cpu().numpy(), x, atol=1e-9)
