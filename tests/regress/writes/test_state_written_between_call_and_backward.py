"""A compiled forward writes a buffer, or an argument, and saves what it holds then: that is the memory itself. A write
between the call and its backward went unseen, and the gradient was that of the new values, in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
@pytest.mark.parametrize("is_argument", [False, True])
def test_the_version_is_checked(options: dict[str, Any], is_argument: bool, rng: np.random.Generator) -> None:
    start = rng.standard_normal(3)
    kept, w = weft.from_numpy(start.copy()), weft.ones(3, dtype=weft.float64, requires_grad=True)

    def forward(x: weft.Tensor, given: Any = None) -> weft.Tensor:
        b = kept if given is None else given
        b.add_(1)
        return (w * b * x).sum()

    compiled, x = weft.compile(forward, **options), weft.ones(3, dtype=weft.float64)
    arguments = (x, kept) if is_argument else (x,)
    for call in range(1, 4):
        w.grad = None
        compiled(*arguments).backward()
        np.testing.assert_allclose(w.grad.numpy(), start + call)
    for write in (lambda: kept.add_(1), lambda: kept.__setitem__(0, 2.0), lambda: compiled(*arguments)):
        loss = compiled(*arguments)
        write()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
