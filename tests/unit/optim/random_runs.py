"""Random training runs, the same lines for weft and for PyTorch: an optimizer with random options and groups, a
schedule, and between steps what users do (rates set, state saved and loaded, groups added, no gradients for some).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np

STEPS = 6
SEEDS = range(39)  # three of each optimizer
_BETAS = ("betas", ((0.8, 0.95), (0.0, 0.9), (0.9, 0.99)))
_EPS = ("eps", (1e-3, 1e-6))
OPTIONS: dict[str, tuple[tuple[str, tuple[Any, ...]], ...]] = {
    "SGD": (("momentum", (0.9, 0.5)), ("dampening", (0.1, 0.5))),
    "Adam": (("amsgrad", (True,)), _BETAS, _EPS),
    "AdamW": (("amsgrad", (True,)), _BETAS, _EPS),
    "RMSprop": (("alpha", (0.9, 0.5)), ("momentum", (0.9, 0.5)), ("centered", (True,)), _EPS),
    "Adagrad": (("lr_decay", (0.1, 0.01)), ("initial_accumulator_value", (0.1, 1.0)), _EPS),
    "Adadelta": (("rho", (0.5, 0.8, 0.0, 1.0)), _EPS),
    "Adamax": (_BETAS, _EPS),
    "NAdam": (_BETAS, _EPS, ("momentum_decay", (0.01, 0.1)), ("decoupled_weight_decay", (True,))),
    "RAdam": (_BETAS, _EPS, ("decoupled_weight_decay", (True,))),
    "ASGD": (("lambd", (1e-3, 0.1)), ("alpha", (0.5, 1.0)), ("t0", (0.0, 2.0))),
    "Rprop": (("etas", ((0.6, 1.1), (0.3, 1.5))), ("step_sizes", ((1e-3, 0.02), (0.05, 1)))),
    "Adafactor": (("beta2_decay", (-0.5, -1.0)), ("eps", ((None, 1e-3), (1e-8, 1e-2))), ("d", (1.0, 2.0))),
    "Muon": (("momentum", (0.9, 0.5)), ("nesterov", (True, False)), ("adjust_lr_fn", ("original", "match_rms_adamw"))),
}
SCHEDULES: tuple[Callable[[Any, Any], Any] | None, ...] = (
    None, None, lambda s, o: s.StepLR(o, 2, 0.5), lambda s, o: s.ExponentialLR(o, 0.9),
    lambda s, o: s.CosineAnnealingLR(o, 5, 0.001), lambda s, o: s.MultiStepLR(o, [1, 3], 0.3),
    lambda s, o: s.LinearLR(o, 0.3, 0.7, 4), lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2),
    lambda s, o: s.OneCycleLR(o, 0.1, total_steps=8, cycle_momentum=False),
    lambda s, o: s.LambdaLR(o, lambda e: 1 / (e + 1)),
    lambda s, o: s.ReduceLROnPlateau(o, patience=0, factor=0.5),
    lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], [2]),
)


def options(r: random.Random, name: str) -> dict[str, Any]:
    """Options of an optimizer, each taken half of the time."""
    drawn = {key: r.choice(values) for key, values in OPTIONS[name] if r.random() < 0.5}
    if name != "Rprop" and r.random() < 0.6:
        drawn["weight_decay"] = r.choice((0.01, 0.1, 0.5))
    if name != "Muon" and r.random() < 0.25:
        drawn["maximize"] = True
    if name != "Muon" and r.random() < 0.5:
        drawn["foreach"] = r.choice((True, False))
    return {"lr": r.choice((0.001, 0.01, 0.05, 0.5)), **drawn}


def train(lib: Any, seed: int, wrap: Callable[[Any], Any] = lambda step: step) -> list[float]:
    """The rates and parameters of 6 steps, all float64."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    name = list(OPTIONS)[seed % len(OPTIONS)]
    shapes = [(2, 3), (4, 1), (1, 2)] if name == "Muon" else r.sample([(3,), (2, 3), (1,), (2, 2, 2), (4, 1)], 3)
    params, factors, offsets = (
        [lib.from_numpy(rng.uniform(*between, shape)) for shape in shapes] for between in ((-1, 1), (0.5, 2), (-1, 1))
    )
    for p in params:
        p.requires_grad_()
    opt = getattr(lib.optim, name)(
        [{"params": params[:1]}, {"params": params[1:2], "lr": r.choice((0.002, 0.2))}], **options(r, name)
    )
    make = r.choice(SCHEDULES)
    schedule = None if make is None else make(lib.optim.lr_scheduler, opt)
    steps: dict[Any, Any] = {}
    rows: list[float] = []

    def step_without(left_out: int, in_closure: bool) -> Any:
        def loss() -> Any:
            opt.zero_grad()
            terms = [
                ((p * a + b).sin() * a).sum() + (p * p * a).sum() * 0.3
                for i, (p, a, b) in enumerate(zip(params, factors, offsets, strict=True)) if i != left_out
            ]
            total = sum(terms)
            total.backward()
            return total

        def step(scale: Any) -> Any:
            return opt.step(loss) if in_closure else (loss() * scale, opt.step())[0]

        return wrap(step)

    for count in range(STEPS):
        deed = r.choice(("nothing", "nothing", "nothing", "rate", "decay", "save", "group"))
        if deed == "rate":
            opt.param_groups[0]["lr"] = r.choice((0.003, 0.03, 0.3))
        elif deed == "decay" and "weight_decay" in opt.param_groups[1]:
            opt.param_groups[1]["weight_decay"] = 0.3
        elif deed == "save":
            opt.load_state_dict(copy.deepcopy(opt.state_dict()))
        elif deed == "group" and len(opt.param_groups) == 2 and (schedule is None or hasattr(schedule, "patience")):
            opt.add_param_group({"params": params[2:], "lr": 0.07})
        kind = (r.choice((-1, -1, 0, 1)) if count else -1, r.random() < 0.25)
        if kind not in steps:
            steps[kind] = step_without(*kind)
        loss = float(steps[kind](lib.ones(())))
        if schedule is not None:
            schedule.step(*([loss] if hasattr(schedule, "patience") else []))
        rows += [loss, *(float(group["lr"]) for group in opt.param_groups)]
    return rows + [x for p in params for x in p.detach().numpy().ravel().tolist()] + [float(len(opt.state))]
