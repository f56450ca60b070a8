"""A returned view of an argument whose dims are permuted or expanded is a view of what the argument is a view of: a
write to it is part of that tensor's history."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
@pytest.mark.parametrize("shown", [
    lambda b: b.t(), lambda b: b.permute(1, 0), lambda b: b.expand(3, *b.shape), lambda b: b[:, 1:].t(),
    lambda b: b[1:],
])
def test_writes_to_views_of_them(
    shown: Callable[[weft.Tensor], weft.Tensor], backend: str, rng: np.random.Generator,
) -> None:
    n = int(rng.integers(3, 6))
    first = weft.compile(lambda x: x[0], backend=backend)
    gradients = []
    for f in (lambda x: x[0], first, first):
        w = weft.ones(n, n, requires_grad=True)
        base = w * 1
        view = f(shown(base))
        assert view._is_view() and view._base is base
        view.mul_(2)
        base.sum().backward()
        gradients.append(w.grad.numpy())
    np.testing.assert_array_equal(gradients[1], gradients[0])
    np.testing.assert_array_equal(gradients[2], gradients[0])
