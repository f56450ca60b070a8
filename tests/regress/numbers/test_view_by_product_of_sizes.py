"""view(n) of a size that Python computed of symbols serves every size."""

from __future__ import annotations

import weft


def test_view_of_a_product_of_sizes() -> None:
    step = weft.compile(lambda x: x.view(x.shape[0] * x.shape[1])[: x.shape[0]] * 2, backend="interpret")
    weft.counters.reset()
    for n in range(3, 8):
        x = weft.rand(n, n + 2)
        assert step(x).tolist() == (x.view(-1)[:n] * 2).tolist()
    assert weft.counters.captures == 1
