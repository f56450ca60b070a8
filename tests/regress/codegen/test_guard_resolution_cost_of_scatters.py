"""A graph with many scatters and many guards: what its guards settle was worked out anew for every scatter, which took
most of the time of a first call (22 s for a loop of 20 Runge-Kutta steps).
"""

from __future__ import annotations

import pytest

import weft
from weft.passes import alias


def test_guards_are_settled_a_fixed_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[int] = []
    actual = alias.settled_guards
    monkeypatch.setattr(alias, "settled_guards", lambda env: (settled.append(1), actual(env))[1])
    counts = []
    for writes in (3, 12):

        @weft.compile
        def step(x: weft.Tensor, y: weft.Tensor, writes: int = writes) -> weft.Tensor:
            out = weft.zeros(writes, 2)
            for i in range(writes):
                out[i, 0] = x[i] * y.sum()
                out[i, 1] = y[i] - x[i]
            return out

        settled.clear()
        x, y = weft.randn(12), weft.randn(12)
        made = step(x, y)
        expected = weft.stack([weft.stack([x[i] * y.sum(), y[i] - x[i]]) for i in range(writes)])
        assert weft.allclose(made, expected)
        counts.append(len(settled))
    assert counts[0] == counts[1], counts
