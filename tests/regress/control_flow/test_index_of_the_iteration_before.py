"""A name that has the index of the iteration before was taken for a number that stays the same: an item of a list by it
was the one of the first call at every length."""

from __future__ import annotations

import weft


def test_items_by_the_index_before_are_right_at_every_length() -> None:
    def run(x: weft.Tensor, h: weft.Tensor) -> weft.Tensor:
        factors, before = [0.5] * 40 + [0.1] * 40, 0
        for t in range(x.shape[0]):
            h = weft.tanh(h + x[t]) * factors[before] + weft.sin(x[t])
            before = t
        return h

    step = weft.compile(run)
    for length in (20, 60):
        x, h = weft.randn(length, 3), weft.zeros(3)
        assert weft.allclose(step(x, h), run(x, h), atol=1e-5)
