"""Optimizers and schedules of random training programs, as source text."""

from __future__ import annotations

import random
from collections.abc import Callable

Facts = tuple[str, ...]  # the options that a user may change between steps


def _groups(r: random.Random) -> str:
    """The parameters: all alike, or the first one with a learning rate of its own."""
    return (
        "model.parameters()" if r.random() < 0.7
        else "[{'params': list(model.parameters())[:1], 'lr': 0.003}, {'params': list(model.parameters())[1:]}]"
    )


def _made(
    name: str, rates: tuple[float, ...], facts: Facts, *options: tuple[str, ...]
) -> Callable[[random.Random], tuple[str, Facts]]:
    def make(r: random.Random) -> tuple[str, Facts]:
        chosen = "".join(f", {text}" for text in map(r.choice, options) if text)
        return f"opt = weft.optim.{name}({_groups(r)}, lr={r.choice(rates)}{chosen})", facts

    return make


_DECAY = ("", "weight_decay=0.01", "weight_decay=0.1")
_FOREACH = ("", "", "foreach=True", "foreach=False")
_BETAS = ("", "betas=(0.8, 0.95)")
_MAXIMIZE = ("", "", "", "maximize=True")

OPTIMIZERS = (
    _made("SGD", (0.01, 0.05), ("weight_decay",), _DECAY, _FOREACH, _MAXIMIZE),
    _made(
        "SGD", (0.01, 0.05), ("weight_decay", "momentum"),
        ("momentum=0.9", "momentum=0.8, nesterov=True", "momentum=0.7, dampening=0.1"), _DECAY,
    ),
    _made("Adam", (0.01, 0.02), ("weight_decay", "betas"), _DECAY, _BETAS, ("", "amsgrad=True"), _MAXIMIZE),
    _made(
        "AdamW", (0.01, 0.02), ("weight_decay", "betas"),
        ("", "weight_decay=0.1"), _BETAS, ("", "amsgrad=True"), _FOREACH,
    ),
    _made(
        "RMSprop", (0.01,), ("weight_decay", "momentum"),
        ("momentum=0.5", "momentum=0.9"), ("", "centered=True"), _DECAY,
    ),
    _made("RMSprop", (0.01,), ("weight_decay",), ("", "alpha=0.9"), ("", "centered=True"), _DECAY),
    _made("Adagrad", (0.05,), ("weight_decay",), ("", "lr_decay=0.1"), ("", "initial_accumulator_value=0.1"), _DECAY),
    _made("Adadelta", (0.5, 1.0), ("weight_decay",), ("", "rho=0.8"), _DECAY),
    _made("Adamax", (0.01,), ("weight_decay", "betas"), _BETAS, _DECAY),
    _made("NAdam", (0.01,), ("weight_decay", "betas"), ("", "momentum_decay=0.01"), _DECAY),
    _made("RAdam", (0.01,), ("weight_decay", "betas"), _BETAS, _DECAY),
    _made("ASGD", (0.01,), ("weight_decay",), ("", "lambd=1e-3"), _DECAY),
    _made("Rprop", (0.01,), (), ("", "etas=(0.6, 1.1)")),
)


def _schedule(text: str, advance: str = "schedule.step()") -> Callable[[random.Random], tuple[str, str]]:
    return lambda r: (f"schedule = {text}", advance)


_LR = "weft.optim.lr_scheduler"
SCHEDULES: tuple[Callable[[random.Random], tuple[str, str]], ...] = (
    lambda r: ("", ""),
    lambda r: ("", ""),
    _schedule(f"{_LR}.StepLR(opt, 2, 0.5)"),
    _schedule(f"{_LR}.ExponentialLR(opt, 0.9)"),
    _schedule(f"{_LR}.CosineAnnealingLR(opt, 5)"),
    _schedule(f"{_LR}.LambdaLR(opt, lambda n: 1 / (n + 1))"),
    _schedule(f"{_LR}.MultiStepLR(opt, [1, 3], 0.3)"),
    _schedule(f"{_LR}.LinearLR(opt, 0.3, 1.0, 4)"),
    _schedule(f"{_LR}.CosineAnnealingWarmRestarts(opt, 2)"),
    _schedule(f"{_LR}.ReduceLROnPlateau(opt, patience=0, factor=0.5)", "schedule.step(last)"),
    _schedule(f"{_LR}.OneCycleLR(opt, 0.05, total_steps=20, cycle_momentum=False)"),
)
