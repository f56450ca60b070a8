"""A view that wanted no gradient in the first call, and has a history since its base was written: the check of simple
arguments let it through, and its gradient was lost."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("split", [False, True])
def test_a_view_has_the_history_of_its_base(split: bool, rng: np.random.Generator) -> None:
    @weft.compile(split=split)
    def doubled(x: weft.Tensor) -> weft.Tensor:
        return (x * 2).sum()

    values = rng.standard_normal(5).astype("f")
    base, weight = weft.ones(5), weft.from_numpy(values).requires_grad_()
    view = base[:2]
    for _ in range(3):
        assert doubled(view).item() == 4 and not doubled(view).requires_grad
    base.mul_(weight)
    for _ in range(2):
        weight.grad = None
        out = doubled(view)
        out.backward(retain_graph=True)
        np.testing.assert_allclose(out.item(), 2 * values[:2].sum(), rtol=1e-6)
        assert weight.grad is not None and weight.grad.tolist() == [2, 2, 0, 0, 0]
