"""Schedulers that go up and down: cosines, triangles, and the one-cycle policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.optim.optimizer import Optimizer
from weft.optim.scheduler import LRScheduler, set_rate
from weft.support.errors import ValueProblem


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to eta_min over T_max steps, and back.
    Source: Loshchilov and Hutter (arXiv:1608.03983)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        step, span, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return [group["lr"] for group in self.groups]
        if self._step_count == 1 and step > 0:
            return self.closed_form()
        if (step - 1 - span) % (2 * span) == 0:
            rise = (1 - math.cos(math.pi / span)) / 2
            return [group["lr"] + (base - low) * rise for base, group in zip(self.base_lrs, self.groups, strict=True)]
        ratio = (1 + math.cos(math.pi * step / span)) / (1 + math.cos(math.pi * (step - 1) / span))
        return [ratio * (group["lr"] - low) + low for group in self.groups]

    def closed_form(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to eta_min over T_0 steps, again and again, each T_mult times as long."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueProblem(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueProblem(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one step, or to a place given as a (fractional) number of steps."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())

    def _go_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueProblem(f"Expected non-negative epoch, but got {epoch}")
        length, at = self.T_0, epoch
        if self.T_mult == 1:
            at = epoch % length
        while at >= length:
            at -= length
            length *= self.T_mult
        self.T_cur, self.T_i = at, length  # type: ignore[assignment]


class CyclicLR(LRScheduler):
    """A triangle between base_lr and max_lr, with momentum the other way round. Source: Smith (arXiv:1506.01186)."""

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: float = 0.8, max_momentum: float = 0.9, last_epoch: int = -1,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueProblem("mode is invalid and scale_fn is None")
        count = len(optimizer.param_groups)
        lows, self.max_lrs = _spread(base_lr, count, "base_lr"), _spread(max_lr, count, "max_lr")
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                set_rate(group, low)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.mode, self.gamma, self.scale_mode = (
            mode, gamma, "iterations" if mode == "exp_range" and scale_fn is None else scale_mode
        )
        self._scale_fn = scale_fn
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def _start_momentum(self, optimizer: Optimizer, base: float, greatest: float, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueProblem("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        count = len(optimizer.param_groups)
        self.base_momentums, self.max_momentums = (
            _spread(base, count, "base_momentum"), _spread(greatest, count, "max_momentum")
        )
        if last_epoch == -1:
            _give_momentums(optimizer, self.base_momentums, self.max_momentums)

    def _scale(self, x: float) -> float:
        if self._scale_fn is not None:
            return self._scale_fn(x)
        if self.mode == "triangular2":
            return float(1 / (2.0 ** (x - 1)))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.groups, self.base_momentums, self.max_momentums, strict=True):
                set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a scale function of one's own."""
        return {key: value for key, value in super().state_dict().items() if key != "_scale_fn"}


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then far down, with momentum the other way round.
    Source: Smith and Topin (arXiv:1708.07120)."""

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: float = 0.85, max_momentum: float = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueProblem("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueProblem(f"Expected positive integer total_steps, but got {total_steps}")
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueProblem(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueProblem(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        self._phases = _one_cycle_phases(total_steps, pct_start, three_phase)
        if last_epoch == -1:
            for group, greatest in (
                zip(optimizer.param_groups, _spread(max_lr, len(optimizer.param_groups), "max_lr"), strict=True)
            ):
                group["initial_lr"] = greatest / div_factor
                group["max_lr"] = greatest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _start_momentum(self, optimizer: Optimizer, base: float, greatest: float, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueProblem("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        if last_epoch == -1:
            count = len(optimizer.param_groups)
            lows, highs = _spread(base, count, "base_momentum"), _spread(greatest, count, "max_momentum")
            _give_momentums(optimizer, lows, highs)

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Any]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueProblem(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        begin = 0.0
        for i, (end, *_) in enumerate(self._phases):
            if step <= end or i == len(self._phases) - 1:
                break
            begin = end
        end, start_lr, end_lr, start_momentum, end_momentum = self._phases[i]
        share = (step - begin) / (end - begin)
        if self.cycle_momentum:
            for group in self.groups:
                set_momentum(group, self._between(group[start_momentum], group[end_momentum], share))
        return [self._between(group[start_lr], group[end_lr], share) for group in self.groups]


def _one_cycle_phases(total: int, share: float, three: bool) -> list[tuple[float, str, str, str, str]]:
    """(last step, rate at the start, at the end, momentum at the start, at the end) of each phase."""
    up = float(share * total) - 1
    rising = (up, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three:
        return [rising, (total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    return [
        rising,
        (float(2 * share * total) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
        (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
    ]


def set_momentum(group: dict[str, Any], momentum: float) -> None:
    """Set a group's momentum, or the first of its betas."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def _give_momentums(optimizer: Optimizer, lows: list[float], highs: list[float]) -> None:
    """Start each group at its highest momentum; it keeps both ends, where a OneCycleLR looks for them."""
    for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
        set_momentum(group, high)
        group["max_momentum"], group["base_momentum"] = high, low


def _spread(value: Any, count: int, name: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueProblem(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}."
        )
    return list(value)
