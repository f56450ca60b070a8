"""Programs kept on disk: questions that the passes ask after capture may be answered otherwise by the next example."""

from __future__ import annotations

import pytest

import weft


@pytest.mark.parametrize("sizes", [(1, 4, 1), (4, 1, 4)])
def test_a_kept_program_must_fit_the_example(sizes: tuple[int, ...]) -> None:
    w = weft.ones(1, 3, requires_grad=True)

    def step(x: weft.Tensor) -> list[list[float]]:
        (w * x).sum().backward()
        out = w.grad
        w.grad = None
        return out

    for n in sizes:  # a fresh function each time: the same captured graph, found on disk
        assert weft.compile(step)(weft.full((n, 3), 2.0)).tolist() == [[2.0 * n] * 3]
