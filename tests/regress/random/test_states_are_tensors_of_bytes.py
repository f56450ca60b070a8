"""The state of a generator is a uint8 tensor, as in PyTorch: compared, cloned, saved, and gone back to."""

from __future__ import annotations

import io
from typing import Any

import pytest

import weft


def test_states_travel() -> None:
    g = weft.Generator().manual_seed(5)
    weft.rand(7, generator=g)
    state = g.get_state()
    assert state.dtype is weft.uint8 and weft.equal(state, state.clone())
    drawn = weft.rand(4, generator=g)
    assert not weft.equal(state, g.get_state())
    file = io.BytesIO()
    weft.save({"generator": state, "default": weft.get_rng_state()}, file)
    file.seek(0)
    for kept in (state, state.clone(), weft.load(file)["generator"]):
        assert g.set_state(kept) is g and weft.equal(weft.rand(4, generator=g), drawn)
    assert repr(g.set_state((3, 17))) == "Generator(seed=3, offset=17)"
    weft.set_rng_state(state)
    assert weft.equal(weft.get_rng_state(), state)


@pytest.mark.parametrize("state", [[1, 2], None, "state", weft.zeros(16)], ids=repr)
def test_other_values_are_refused(state: Any) -> None:
    with pytest.raises(TypeError, match="uint8 tensor"):
        weft.Generator().set_state(state)


def test_a_step_goes_back() -> None:
    g = weft.Generator()

    def step() -> tuple[weft.Tensor, ...]:
        state = g.get_state()
        first = weft.rand(2, generator=g)
        g.set_state(state)
        return first, weft.rand(2, generator=g), state

    compiled = weft.compile(step)
    for seed in (0, 1, 2**63 + 5):
        logs = []
        for run in (step, compiled):
            g.manual_seed(seed)
            logs.append([t.tolist() for t in (*run(), g.get_state())])
        assert logs[0] == logs[1] and logs[0][0] == logs[0][1]
