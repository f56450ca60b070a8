"""`index_put_` into a tensor that each iteration of a loop makes: its type was asked with tensors in place of types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

WRITES = {
    "accumulate": lambda new, at, value: new.index_put_((at,), value, accumulate=True),
    "put": lambda new, at, value: new.index_put_((at,), value),
    "item": lambda new, at, value: new.__setitem__(at, value),
    "columns": lambda new, at, value: new.__setitem__((slice(None), at % 3), value[:, at % 3]),
    "mask": lambda new, at, value: new.__setitem__(new[:, 0] > value.detach()[0, 0], 0.5),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("has_gradient", [False, True])
def test_it_is_what_eager_mode_gives(write: str, has_gradient: bool) -> None:
    rng = np.random.default_rng(len(write))

    def step(w: weft.Tensor, h: weft.Tensor, at: weft.Tensor, steps: int) -> list[Any]:
        for _ in range(steps):
            new = weft.zeros(h.shape[0], 3, dtype=weft.float64)
            WRITES[write](new, at, h)
            h = h + (new @ w).tanh()
        if not has_gradient:
            return [h]
        (slope,) = weft.autograd.grad(h.square().sum(), w, create_graph=True)
        return [h.detach(), slope.detach(), *weft.autograd.grad(slope.square().sum(), w)]

    compiled = weft.compile(step)
    for size, steps in ((3, 3), (4, 5), (6, 8), (3, 8)):
        w, h = (weft.tensor(rng.normal(size=s), requires_grad=has_gradient) for s in ((3, 3), (size, 3)))
        at = weft.tensor(rng.permutation(size))
        for a, b in zip(compiled(w, h, at, steps), step(w, h, at, steps), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-9)
