"""Optimizers and schedulers against PyTorch's stored numbers (make_torch_values.py), eager and captured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.optim.reference_cases import LBFGS, OPTIMIZERS, SCHEDULERS, minimise, rates, train
from weft.compile.driver import CompiledFunction

STORED: dict[str, Any] = json.loads(Path(__file__).with_name("torch_values.json").read_text())
CASES = [pytest.param(i, id=f"{name} {options}") for i, (name, options) in enumerate(OPTIMIZERS)]


@pytest.mark.parametrize("i", CASES)
def test_eager_steps_give_pytorchs_numbers(i: int) -> None:
    np.testing.assert_allclose(train(weft, *OPTIMIZERS[i]), STORED["optimizers"][i], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("i", CASES)
def test_one_captured_program_serves_every_step(i: int) -> None:
    made: list[CompiledFunction] = []

    def wrap(step: Any) -> CompiledFunction:
        made.append(CompiledFunction(step, backend="interpret"))
        return made[0]

    name, options = OPTIMIZERS[i]
    # NAdam keeps a product in float32, whose last bit hangs on where its factor is rounded
    np.testing.assert_allclose(
        train(weft, name, options, wrap), STORED["optimizers"][i], rtol=1e-8 if name == "NAdam" else 1e-12, atol=1e-13
    )
    assert len(made[0].entries) == (2 if "dampening" in options else 1), made[0].misses


@pytest.mark.parametrize("i", range(len(LBFGS)))
def test_lbfgs_gives_pytorchs_numbers(i: int) -> None:
    np.testing.assert_allclose(minimise(weft, LBFGS[i]), STORED["lbfgs"][i], rtol=1e-9)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_give_pytorchs_rates(name: str) -> None:
    np.testing.assert_allclose(rates(weft, name), STORED["schedulers"][name], rtol=1e-13)


@pytest.mark.parametrize("name", ["LinearLR", "CosineAnnealingLR", "SequentialLR", "CyclicLR", "StepLR"])
def test_a_scheduler_goes_on_from_its_state(name: str) -> None:
    def make() -> tuple[Any, Any]:
        opt = weft.optim.SGD(
            [{"params": [weft.nn.Parameter(weft.zeros(1))]}, {"params": [weft.nn.Parameter(weft.zeros(1))]}], lr=0.1,
            momentum=0.9,
        )
        return opt, SCHEDULERS[name](weft.optim.lr_scheduler, opt)

    (opt, scheduler), (other, twin) = make(), make()
    for _ in range(5):
        scheduler.step()
    twin.load_state_dict(scheduler.state_dict())
    other.load_state_dict(opt.state_dict())
    for _ in range(5):
        scheduler.step()
        twin.step()
        assert [g["lr"] for g in opt.param_groups] == [g["lr"] for g in other.param_groups]


def test_sgd_by_hand(rng: np.random.Generator) -> None:
    start, grad, lr, decay = rng.standard_normal(5), rng.standard_normal(5), rng.random(), rng.random()
    p = weft.nn.Parameter(weft.from_numpy(start.copy()))
    p.grad = weft.from_numpy(grad)
    weft.optim.SGD([p], lr=lr, weight_decay=decay).step()
    np.testing.assert_allclose(p.detach().numpy(), start - lr * (grad + decay * start))


def test_the_first_step_of_adam_has_size_lr(rng: np.random.Generator) -> None:
    grad = rng.standard_normal(5)
    p = weft.nn.Parameter(weft.zeros(5, dtype=weft.float64))
    p.grad = weft.from_numpy(grad)
    weft.optim.Adam([p], lr=0.25, eps=0.0).step()
    np.testing.assert_allclose(p.detach().numpy(), -0.25 * np.sign(grad))
