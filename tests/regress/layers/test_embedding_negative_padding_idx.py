"""embedding with a padding_idx that counts from the end: no gradient for that row, compiled too, whatever the sizes."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import Tensor

F = weft.nn.functional


@pytest.mark.parametrize("options", [{}, {"backend": "interpret"}, {"split": True}])
@pytest.mark.parametrize("padding", [-1, -2, 3])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_the_row_gets_no_gradient(options: dict[str, Any], padding: int, by_frequency: bool) -> None:
    def step(w: Tensor, i: Tensor) -> Any:
        w = w.detach().requires_grad_()
        rows = F.embedding(i, w, padding_idx=padding, scale_grad_by_freq=by_frequency)
        first = weft.autograd.grad(rows.square().sum(), w, create_graph=True)[0]
        return first, weft.autograd.grad(first.sum(), w)[0]

    compiled = weft.compile(step, **options)
    for rows, index in ((6, [[0, 5, 3], [4, 5, 1]]), (6, [[1, 1, 1]]), (9, [[0, 8, 7]]), (4, [[3, 2, 0]])):
        w, i = weft.arange(2.0 * rows).reshape(rows, 2), weft.tensor(index)
        for found, expected in zip(compiled(w, i), step(w, i), strict=True):
            assert found.tolist() == expected.tolist()
