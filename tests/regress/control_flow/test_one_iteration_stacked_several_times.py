"""What one iteration of a folded loop gives, stacked as often as there are iterations: it was taken for the results of
all of them."""

from __future__ import annotations

import pytest

import weft


@pytest.mark.parametrize("steps", [3, 4, 9, 40])
def test_a_result_of_one_iteration_joined_with_itself(steps: int) -> None:
    def step(s: weft.Tensor, x: weft.Tensor, path: weft.Tensor) -> list[weft.Tensor]:
        out, other = [], []
        for t in range(steps):
            path[t] = s  # (a write of an argument: the loop is found in the graph)
            s = weft.tanh(s * 0.9 + x[t]) + x[t].cos()
            out.append(s.sin())
            other.append(s * 2)
        for t in range(steps):
            path[t] = s
            s = weft.cos(s * 0.9 + out[t]) * x[t] + other[t]
        return [weft.stack([out[1]] * steps), weft.cat([other[2]] * steps), weft.stack([s] * steps, 1)]

    weft.manual_seed(0)
    arguments = weft.randn(3), weft.randn(steps, 3)
    expected = step(*arguments, weft.zeros(steps, 3))
    for fold in ("off", "on", "all"):
        with weft.knobs(fold=fold):
            results = weft.compile(step)(*arguments, weft.zeros(steps, 3))
        for result, wanted in zip(results, expected, strict=True):
            weft.testing.assert_close(result, wanted)
