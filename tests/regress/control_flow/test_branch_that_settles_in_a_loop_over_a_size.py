"""A branch that changes Python's state up to some iteration leaves other lengths with other states: a program of all
lengths would leave that of the first call."""

from __future__ import annotations

import weft


class Count:
    n = 0


def test_counter_that_stops_is_right_at_every_length() -> None:
    count = Count()

    @weft.compile
    def step(x: weft.Tensor, h: weft.Tensor) -> weft.Tensor:
        for t in range(x.shape[0]):
            if count.n < 12:
                count.n += 1
            h = weft.tanh(h * 0.9 + x[t]) * 0.5 + weft.sin(x[t])
        return h

    for length in (30, 41, 9, 10, 25):
        count.n = 0
        step(weft.ones(length, 3), weft.zeros(3))
        assert count.n == min(length, 12)


def test_setting_and_inner_loops_are_one_program() -> None:
    layers = weft.nn.ModuleList([weft.nn.Linear(3, 3) for _ in range(2)])

    def run(x: weft.Tensor, h: weft.Tensor, scale: weft.Tensor | None = None) -> weft.Tensor:
        states = [h, h * 2]
        for row in x:
            for i, layer in enumerate(layers):
                states[i] = weft.tanh(layer(states[i] + row))
            if scale is not None:
                states[0] = states[0] * scale
        return states[0] + states[1]

    step = weft.compile(run)
    for length in (20, 27, 33, 41):
        x, h = weft.randn(length, 3), weft.zeros(3)
        assert weft.allclose(step(x, h), run(x, h), atol=1e-5)
    assert len(step.entries) == 1
