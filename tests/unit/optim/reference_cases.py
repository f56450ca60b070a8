"""Training a tiny model with each optimizer and option, and running each scheduler:
the same lines for weft and for PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEPS = 20
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "betas": (0.5, 0.9), "eps": 1e-3, "maximize": True}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "centered": True, "alpha": 0.9}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.01, "weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.01}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.9, 0.95)}),
    ("Rprop", {"lr": 0.01, "etas": (0.4, 1.3)}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "t0": 5, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.05}),
    ("Adafactor", {
        "lr": 0.5, "weight_decay": 0.1, "eps": (1e-5, 1e-2), "d": 2.0, "beta2_decay": -0.5, "maximize": True
    }),
]
LBFGS: list[dict[str, Any]] = [
    {"lr": 0.1, "max_iter": 10},
    {"lr": 1, "line_search_fn": "strong_wolfe"},
    {"lr": 1, "line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 2},
    {"lr": 1, "line_search_fn": "strong_wolfe", "max_iter": 3, "max_eval": 4},
    {"lr": 0.5, "line_search_fn": "strong_wolfe", "max_iter": 2, "max_eval": 3},
    {"lr": 1, "line_search_fn": "strong_wolfe", "max_iter": 1, "max_eval": 1},
]


def train(lib: Any, name: str, options: dict[str, Any], wrap: Callable[[Any], Any] | None = None) -> list[float]:
    """The losses of 20 steps, then the parameters, all float64."""
    rng = np.random.default_rng(3)
    w, b = (lib.from_numpy(rng.standard_normal(shape)).requires_grad_() for shape in ((4, 3), (3,)))
    opt = getattr(lib.optim, name)([{"params": [w]}, {"params": [b]}], **options)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = (((x @ w + b).tanh() - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    run = step if wrap is None else wrap(step)
    found = [
        run(lib.from_numpy(rng.standard_normal((5, 4))), lib.from_numpy(rng.standard_normal((5, 3)))).item()
        for _ in range(STEPS)
    ]
    return found + w.detach().numpy().ravel().tolist() + b.detach().numpy().tolist()


def minimise(lib: Any, options: dict[str, Any]) -> list[float]:
    """Rosenbrock's function in 4 dimensions with LBFGS: the losses of 8 steps, then the place."""
    x = lib.from_numpy(np.array([-1.2, 1.0, 0.5, -0.3])).requires_grad_()
    opt = lib.optim.LBFGS([x], **options)

    def closure() -> Any:
        opt.zero_grad()
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        loss.backward()
        return loss

    return [opt.step(closure).item() for _ in range(8)] + x.detach().numpy().tolist()


SCHEDULERS: dict[str, Callable[[Any, Any], Any]] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.8, 5),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 6, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 3, 4, mode="triangular2"),
    "CyclicLR exp_range": lambda s, o: s.CyclicLR(o, 0.01, [0.2, 0.3], 3, mode="exp_range", gamma=0.9),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.3, total_steps=25),
    "OneCycleLR three_phase": lambda s, o: s.OneCycleLR(
        o, [0.3, 0.4], total_steps=25, three_phase=True, anneal_strategy="linear"
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 4), s.CosineAnnealingLR(o, 6), s.ExponentialLR(o, 0.9)], [4, 10]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)], o),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=2, factor=0.5),
    "ReduceLROnPlateau max": lambda s, o: s.ReduceLROnPlateau(
        o, patience=2, factor=0.5, mode="max", threshold_mode="abs", threshold=0.1, cooldown=1, min_lr=0.02),
}
METRICS = (1, 0.9, 0.9, 0.95, 0.91, 0.9, 0.8, 0.85, 0.85, 0.85, 0.85, 0.85, 0.85, 0.85, 0.85, 0.9, 0.9, 0.9, 0.9, 0.9)


def rates(lib: Any, name: str) -> list[list[float]]:
    """Rates of both groups and the momentum of the first, before and after each of 20 steps."""
    p, q = (lib.nn.Parameter(lib.zeros(2)) for _ in range(2))
    opt = lib.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1, momentum=0.5)
    scheduler = SCHEDULERS[name](lib.optim.lr_scheduler, opt)

    def now() -> list[float]:
        return [*(float(group["lr"]) for group in opt.param_groups), float(opt.param_groups[0]["momentum"])]

    found = [now()]
    for metric in METRICS:
        opt.step()
        scheduler.step(*([metric] if "Plateau" in name else []))
        found.append(now())
    return found
