"""A group added behind a ReduceLROnPlateau was an error of zip; SGD without momentum had empty entries of state; groups
that share a tensor as their rate had one each once a state was loaded."""

from __future__ import annotations

import pytest

import weft
from weft.support.errors import StateError

RATES = weft.optim.lr_scheduler


def test_a_group_that_is_added_gets_the_least_rate_of_the_others() -> None:
    p, q = (weft.ones(2, requires_grad=True) for _ in range(2))
    opt = weft.optim.SGD([p], lr=0.5)
    schedule = RATES.ReduceLROnPlateau(opt, patience=0, factor=0.1, min_lr=0.25)
    opt.add_param_group({"params": [q], "lr": 4.0})
    for metric in (1.0, 1.0):
        schedule.step(metric)
    assert [group["lr"] for group in opt.param_groups] == [0.25, 0.4]


def test_least_rates_for_each_group_want_one_more() -> None:
    p, q = (weft.ones(2, requires_grad=True) for _ in range(2))
    opt = weft.optim.SGD([p], lr=0.5)
    schedule = RATES.ReduceLROnPlateau(opt, patience=0, min_lr=[0.25])
    opt.add_param_group({"params": [q]})
    schedule.step(1.0)
    with pytest.raises(StateError, match="number of param groups"):
        schedule.step(1.0)


def test_sgd_without_momentum_has_no_state() -> None:
    p = weft.ones(2, requires_grad=True)
    opt = weft.optim.SGD([p], lr=0.5)
    p.sum().backward()
    opt.step()
    assert opt.state_dict()["state"] == {} and not opt.state


def test_groups_go_on_sharing_a_rate() -> None:
    p, q = (weft.ones(2, requires_grad=True) for _ in range(2))
    opt = weft.optim.SGD([{"params": [p]}, {"params": [q]}], lr=weft.tensor(0.5))
    opt.load_state_dict(opt.state_dict())
    opt.param_groups[0]["lr"].fill_(0.25)
    assert float(opt.param_groups[1]["lr"]) == 0.25
