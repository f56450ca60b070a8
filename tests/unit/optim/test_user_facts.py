"""What programs rely on in optimizers and schedulers: hooks of every kind, complex parameters, differentiable steps,
warnings, older states."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import weft
from weft import optim
from weft.optim.step_hooks import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

Rng = np.random.Generator
ALGORITHMS: list[tuple[type, dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.1, "momentum": 0.9}), (optim.Adam, {"lr": 0.1}), (optim.Adam, {"lr": 0.1, "amsgrad": True}),
    (optim.AdamW, {"lr": 0.1}), (optim.RMSprop, {"lr": 0.1, "momentum": 0.5, "centered": True}),
    (optim.Adagrad, {"lr": 0.1, "initial_accumulator_value": 0.5}), (optim.Adadelta, {"lr": 0.5}),
    (optim.Adamax, {"lr": 0.1}),
    (optim.NAdam, {"lr": 0.1}), (optim.RAdam, {"lr": 0.1}), (optim.ASGD, {"lr": 0.1, "t0": 1}),
    (optim.Rprop, {"lr": 0.1}),
]


@pytest.mark.parametrize(("kind", "options"), ALGORITHMS)
def test_complex_parameters_are_pairs_of_reals(kind: Any, options: dict[str, Any], rng: Rng) -> None:
    z = weft.from_numpy(rng.standard_normal(4) + 1j * rng.standard_normal(4)).requires_grad_()
    pair = weft.view_as_real(z.detach().clone()).requires_grad_()
    one, two = kind([z], **options), kind([pair], **options)
    for _ in range(4):
        gradient = weft.from_numpy(rng.standard_normal((4, 2)))
        pair.grad, z.grad = gradient, weft.view_as_complex(gradient.clone())
        one.step()
        two.step()
    assert np.array_equal(weft.view_as_real(z.detach()).numpy(), pair.detach().numpy())
    moments = [v for v in one.state[z].values() if isinstance(v, weft.Tensor) and v.ndim]
    assert all(v.dtype is weft.complex128 and v.shape == z.shape for v in moments) and set(one.state) == {z}


@pytest.mark.parametrize(("kind", "options"), [a for a in ALGORITHMS if a[0] is not optim.Rprop])
def test_differentiable_steps(kind: Any, options: dict[str, Any], rng: Rng) -> None:
    start = weft.from_numpy(rng.standard_normal(3)).requires_grad_()
    gradient = weft.from_numpy(rng.standard_normal(3) + 3).requires_grad_()

    def after_two_steps(start: weft.Tensor, gradient: weft.Tensor) -> weft.Tensor:
        p = start.clone()
        optimizer = kind([p], differentiable=True, **options)
        for _ in range(2):
            p.grad = gradient * 1.0
            optimizer.step()
        return p

    assert weft.autograd.gradcheck(after_two_steps, (start, gradient))


def test_hooks_around_every_step(rng: Rng) -> None:
    log: list[str] = []
    p = weft.from_numpy(rng.standard_normal(2)).requires_grad_()
    optimizer = optim.SGD([p], lr=0.1)
    handles = [
        register_optimizer_step_post_hook(lambda o, a, k: log.append("post all")),
        register_optimizer_step_pre_hook(lambda o, a, k: log.append("pre all")),
        optimizer.register_step_post_hook(lambda o, a, k: log.append("post")),
        optimizer.register_step_pre_hook(lambda o, a, k: log.append("pre")),
    ]
    optimizer.step()
    assert log == ["pre all", "pre", "post", "post all"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(log) == 4


def test_hooks_around_saving_and_loading(rng: Rng) -> None:
    log: list[str] = []
    p = weft.from_numpy(rng.standard_normal(2)).requires_grad_()
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.register_state_dict_pre_hook(lambda o: log.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, s: log.append("saved"))
    optimizer.register_state_dict_post_hook(lambda o, s: log.append("first"), prepend=True)
    optimizer.register_load_state_dict_pre_hook(lambda o, s: log.append("loading"))
    optimizer.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert log == ["saving", "first", "saved", "loading", "loaded"]


def test_older_states_and_repeated_parameters(rng: Rng) -> None:
    p = weft.from_numpy(rng.standard_normal(2)).requires_grad_()
    p.grad = weft.ones(2, dtype=weft.float64)
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.step()
    older = copy.deepcopy(optimizer.state_dict())
    older["state"][0]["step"] = 1.0
    del older["param_groups"][0]["foreach"]
    optimizer.load_state_dict(older)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 2
    with pytest.warns(UserWarning, match="duplicate parameters"):
        twice = optim.SGD([p, p], lr=0.1)
    assert twice.state_dict()["param_groups"][0]["params"] == [0, 0]


def test_lbfgs_at_a_minimum(rng: Rng) -> None:
    p = weft.zeros(2, requires_grad=True)
    optimizer = optim.LBFGS([p], tolerance_grad=-1)

    def closure() -> weft.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert float(optimizer.step(closure)) == 0


def test_schedulers_warn_of_their_order(rng: Rng) -> None:
    def told(use: Any) -> list[str]:
        optimizer = optim.SGD([weft.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            use(optimizer, scheduler)
        return [str(w.message) for w in caught]

    assert not told(lambda o, s: (o.step(), s.step(), s.step()))
    assert "how-to-adjust-learning-rate" in told(lambda o, s: (s.step(), o.step()))[0]
    assert "epoch parameter" in told(lambda o, s: (o.step(), s.step(3)))[0]
    assert "overridden" in told(lambda o, s: (setattr(o, "step", lambda: None), s.step()))[0]
