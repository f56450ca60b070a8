"""CPython 3.12 inlines `Tensor.__getitem__` from some call on, and its frame then stands at an inline cache of the
subscript: a row of a loop over a size is the same call as before."""

from __future__ import annotations

import weft


def test_rows_are_recognised_once_their_subscript_is_specialized() -> None:
    def run(x: weft.Tensor, h: weft.Tensor) -> weft.Tensor:
        for t in range(x.shape[0] - 1):
            h = h * 0.9 + weft.tanh(h) / (x[t + 1].abs() + 1)
        return h

    rows = weft.randn(40, 3)
    for t in range(rows.shape[0] - 1):
        rows = rows + rows[t + 1]
    step = weft.compile(run)
    for length in (20, 23, 31, 19):
        x, h = weft.randn(length, 3), weft.zeros(3)
        assert weft.allclose(step(x, h), run(x, h), atol=1e-5)
    assert len(step.entries) == 1
