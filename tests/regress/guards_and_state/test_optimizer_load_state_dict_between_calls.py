"""Restoring an optimizer, or forgetting a part of its state, between calls of a compiled step costs no capture
and gives eager mode's numbers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import weft

# the captures of the first steps, and of ten that find no momentum
KINDS: list[tuple[str, dict[str, Any], int, int]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.5}, 1, 0),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "dampening": 0.2}, 2, 10),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "nesterov": True}, 1, 0),
    *((name, {}, 1, 0) for name in str.split("Adam NAdam RAdam Adamax Adadelta Adagrad ASGD Rprop Adafactor Muon")),
    ("AdamW", {"amsgrad": True}, 1, 0),
    ("RMSprop", {"momentum": 0.3, "centered": True}, 1, 0),
]


@pytest.mark.parametrize(("name", "options", "first", "forgotten"), KINDS, ids=lambda v: str(v))
def test_restoring_costs_no_capture(
    name: str, options: dict[str, Any], first: int, forgotten: int, rng: np.random.Generator
) -> None:
    inputs = [weft.from_numpy(x) for x in rng.normal(size=(30, 4, 3)).astype(np.float32)]
    ends, captures = [], []
    for is_compiled in (False, True):
        w = weft.nn.Parameter(weft.arange(6.0).reshape(2, 3) / 6)
        optimizer = getattr(weft.optim, name)([w], **options)

        def step(x: Any, w: Any = w, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = ((x @ w.t()) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = weft.compile(step) if is_compiled else step
        weft.counters.reset()
        captures, losses = [], [float(step(x)) for x in inputs[:3]]
        captures.append(weft.counters.captures)
        saved = copy.deepcopy(optimizer.state_dict())
        for x in inputs[3:13]:
            optimizer.load_state_dict(saved)
            optimizer.param_groups[0]["lr"] *= 0.9
            losses.append(float(step(x)))
        kept = optimizer.state_dict()  # the state itself: what is loaded meanwhile does not touch it
        optimizer.load_state_dict(saved)
        step(inputs[0])
        optimizer.load_state_dict(kept)
        losses += [float(step(x)) for x in inputs[13:20]]
        captures.append(weft.counters.captures)
        for x in inputs[20:]:
            for state in optimizer.state.values():
                state.update({key: None for key in ("momentum_buffer", "exp_avg") if key in state})
            losses.append(float(step(x)))
        captures.append(weft.counters.captures)
        ends.append(losses)
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-4)
    assert captures == [first, first, first + forgotten]


def test_state_of_another_structure_is_captured(rng: np.random.Generator) -> None:
    w = weft.nn.Parameter(weft.ones(3))
    optimizer = weft.optim.Adam([w], lr=0.1)

    @weft.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return optimizer.state[w]["exp_avg"] * 1

    x = weft.ones(3)
    step(x)
    weft.counters.reset()
    optimizer.state.clear()
    assert step(x).tolist() == pytest.approx([0.1] * 3)
    optimizer.state[w]["exp_avg"] = weft.ones(6)[::2]
    assert step(x).tolist() == pytest.approx([1.0] * 3)
    assert weft.counters.captures == 2 and len(step.misses) == 2


def test_schedulers_and_steps_keep_their_groups() -> None:
    w = weft.nn.Parameter(weft.ones(3))
    optimizer = weft.optim.SGD([w], lr=0.5)
    group = optimizer.param_groups[0]
    saved = copy.deepcopy(optimizer.state_dict())
    group["lr"] = 0.1
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0] is group and group["lr"] == 0.5 and group["params"] == [w]
