"""Schedulers beyond a plain run: rates that are tensors, a sequence that starts a scheduler anew,
training resumed at a step."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from weft.optim import lr_scheduler as schedulers


def optimizer(rate: Any = 0.1, **options: Any) -> weft.optim.SGD:
    return weft.optim.SGD([{"params": [weft.nn.Parameter(weft.zeros(1))], **options}], lr=rate)


def rates(opt: weft.optim.SGD, scheduler: Any, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        found.append(float(opt.param_groups[0]["lr"]))
        opt.step()
        scheduler.step()
    return found


@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_sequence_starts_each_scheduler_anew_and_warns_of_nothing(as_tensor: bool) -> None:
    opt = optimizer(weft.tensor(0.1, dtype=weft.float64) if as_tensor else 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = [
            schedulers.ExponentialLR(opt, 0.5), schedulers.MultiplicativeLR(opt, lambda step: 0.9),
            schedulers.StepLR(opt, 2, 0.1),
        ]
        found = rates(opt, schedulers.SequentialLR(opt, parts, [2, 4]), 8)
    # one with a formula starts from the initial rate, one without goes on
    want = [0.1, 0.05, 0.05 * 0.9, 0.05 * 0.9**2, 0.1, 0.1, 0.01, 0.01]
    assert found == pytest.approx(want, rel=1e-6)
    if as_tensor:
        assert opt.param_groups[0]["initial_lr"].item() == pytest.approx(0.1)


def test_sequences_nest() -> None:
    opt = optimizer()
    inner = schedulers.SequentialLR(opt, [schedulers.ConstantLR(opt, 0.5, 2), schedulers.ExponentialLR(opt, 0.5)], [2])
    outer = schedulers.SequentialLR(opt, [inner, schedulers.LambdaLR(opt, lambda step: 10.0**-step)], [4])
    # an inner sequence is one step ahead, as in PyTorch
    assert rates(opt, outer, 6) == pytest.approx([0.05, 0.1, 0.05, 0.025, 0.1, 0.01])
    with pytest.raises(ValueError, match="ReduceLROnPlateau"):
        schedulers.SequentialLR(opt, [schedulers.ReduceLROnPlateau(opt)], [])


@pytest.mark.parametrize("make", [
    lambda o, at: schedulers.ExponentialLR(o, 0.9, at), lambda o, at: schedulers.LinearLR(o, 0.5, 0.8, 9, at),
    lambda o, at: schedulers.PolynomialLR(o, 9, 2.0, at),
    lambda o, at: schedulers.MultiplicativeLR(o, lambda step: 0.9, at),
    lambda o, at: schedulers.CosineAnnealingLR(o, 9, 0.01, at),
])
def test_resuming_leaves_the_rate_of_the_step_that_training_stopped_at(make: Any) -> None:
    opt = optimizer()
    whole = rates(opt, make(opt, -1), 8)
    resumed = optimizer(whole[4], initial_lr=0.1)
    assert rates(resumed, make(resumed, 3), 4) == pytest.approx(whole[4:])


def test_the_last_rate_is_not_the_optimizers_tensor() -> None:
    opt = optimizer(weft.tensor(0.1))
    scheduler = schedulers.ExponentialLR(opt, 0.5)
    (last,) = scheduler.get_last_lr()
    opt.step()
    scheduler.step()
    assert last.item() == pytest.approx(0.1) and opt.param_groups[0]["lr"].item() == pytest.approx(0.05)


# Rates that PyTorch 2.13 gives, with the momentum of the same step and the initial rate that stays.
@pytest.mark.parametrize(("make", "initial", "want"), [
    (
        lambda o: schedulers.SequentialLR(
            o, [schedulers.OneCycleLR(o, 0.6, total_steps=10), schedulers.CyclicLR(o, 0.01, 0.5, 2)], [3]
        ),
        0.024, [(0.024, 0.9), (0.312, 0.85), (0.6, 0.8), (0.01, 0.9), (0.255, 0.85), (0.5, 0.8)],
    ),
    (
        lambda o: schedulers.SequentialLR(o, [schedulers.StepLR(o, 3), schedulers.CyclicLR(o, 0.01, 0.5, 2)], [2]),
        0.1, [(0.1, 0.9), (0.1, 0.9), (0.01, 0.9), (0.255, 0.85), (0.5, 0.8), (0.255, 0.85)],
    ),
    (
        lambda o: schedulers.ChainedScheduler([schedulers.StepLR(o, 2), schedulers.CyclicLR(o, 0.01, 0.5, 2)]),
        0.1, [(0.1, 0.9), (0.255, 0.85), (0.5, 0.8), (0.255, 0.85), (0.01, 0.9), (0.255, 0.85)],
    ),
])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_cyclic_rate_beside_others_keeps_what_they_kept(
    make: Any, initial: float, want: Any, as_tensor: bool
) -> None:
    rate = weft.tensor(0.1, dtype=weft.float64) if as_tensor else 0.1
    opt = weft.optim.SGD([weft.nn.Parameter(weft.zeros(1))], lr=rate, momentum=0.5)
    scheduler = make(opt)
    group, found = opt.param_groups[0], []
    for _ in want:
        found.append((float(group["lr"]), group["momentum"]))
        opt.step()
        scheduler.step()
    assert np.array(found) == pytest.approx(np.array(want))
    assert float(group["initial_lr"]) == pytest.approx(initial)
