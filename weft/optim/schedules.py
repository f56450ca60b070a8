"""Schedulers with a formula: steps, powers, lines, and combinations of schedulers."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from weft.optim.optimizer import Optimizer
from weft.optim.plateau import ReduceLROnPlateau
from weft.optim.scheduler import LRScheduler, refuse_capture, set_rate
from weft.support.errors import ArgumentError, ValueProblem

Factor = Callable[[int], float]


def _per_group(optimizer: Optimizer, factors: Factor | Sequence[Factor]) -> list[Factor]:
    if not isinstance(factors, (list, tuple)):
        return [factors] * len(optimizer.param_groups)  # type: ignore[list-item]
    if len(factors) != len(optimizer.param_groups):
        raise ValueProblem(f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {len(factors)}")
    return list(factors)


class _ByFunction(LRScheduler):
    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1) -> None:
        self.lr_lambdas = _per_group(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and plain functions; objects that are callable are saved by their attributes."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [None if hasattr(fn, "__code__") else dict(fn.__dict__) for fn in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what state_dict gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for fn, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                fn.__dict__.update(saved)


class LambdaLR(_ByFunction):
    """The initial rate times lr_lambda(step)."""

    def get_lr(self) -> list[Any]:
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunction):
    """The rate before times lr_lambda(step)."""

    def get_lr(self) -> list[Any]:
        if self._is_initial:
            return [group["lr"] for group in self.groups]
        return [group["lr"] * fn(self.last_epoch) for fn, group in zip(self.lr_lambdas, self.groups, strict=True)]


class StepLR(LRScheduler):
    """The rate times gamma every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return [group["lr"] for group in self.groups]
        return [group["lr"] * self.gamma for group in self.groups]

    def closed_form(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times gamma at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch not in self.milestones:
            return [group["lr"] for group in self.groups]
        return [group["lr"] * self.gamma ** self.milestones[self.last_epoch] for group in self.groups]

    def closed_form(self) -> list[Any]:
        passed = bisect.bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times gamma every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        return [group["lr"] if self._is_initial else group["lr"] * self.gamma for group in self.groups]

    def closed_form(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times `factor` for the first total_iters steps."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueProblem("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return [group["lr"] * self.factor for group in self.groups]
        if self.last_epoch != self.total_iters:
            return [group["lr"] for group in self.groups]
        return [group["lr"] * (1.0 / self.factor) for group in self.groups]

    def closed_form(self) -> list[Any]:
        return [base * (self.factor if self.last_epoch < self.total_iters else 1) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """A line from start_factor to end_factor times the rate, over total_iters steps."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueProblem("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueProblem("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return [group["lr"] * self.start_factor for group in self.groups]
        if self._is_initial or self.last_epoch > self.total_iters:
            return [group["lr"] for group in self.groups]
        rise = self.end_factor - self.start_factor
        grown = 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [group["lr"] * grown for group in self.groups]

    def closed_form(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate times (1 - step / total_iters) ** power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return [group["lr"] for group in self.groups]
        left, before = 1.0 - self.last_epoch / self.total_iters, 1.0 - (self.last_epoch - 1) / self.total_iters
        return [group["lr"] * (left / before) ** self.power for group in self.groups]

    def closed_form(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class SequentialLR(LRScheduler):
    """One scheduler after another; each starts anew at its milestone."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        if not schedulers:
            raise ValueProblem("SequentialLR expects at least one scheduler to be chained, but got no scheduler.")
        if len(milestones) != len(schedulers) - 1:
            raise ValueProblem(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                "milestone points, but got number "
                f"of schedulers {len(schedulers)} and the number of milestones to be equal to {len(milestones)}")
        if any(isinstance(s, ReduceLROnPlateau) for s in schedulers):
            raise ValueProblem("SequentialLR does not support `ReduceLROnPlateau`, whose `step` needs a metric")
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueProblem("SequentialLR expects all schedulers to belong to the same optimizer")
        self.optimizer = optimizer
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        _undo(self._schedulers)
        first = self._schedulers[bisect.bisect_right(self._milestones, 0)]
        first._begin()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        refuse_capture()
        self.last_epoch += 1
        at = bisect.bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            scheduler._jump(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the state of each scheduler."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what state_dict gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class ChainedScheduler(SequentialLR):
    """Several schedulers at once: each changes the rate that the one before left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueProblem("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        self.optimizer = optimizer or schedulers[0].optimizer
        if any(not isinstance(s, LRScheduler) for s in schedulers):
            raise ArgumentError("ChainedScheduler expects schedulers")
        if any(s.optimizer is not self.optimizer for s in schedulers):
            raise ValueProblem("ChainedScheduler expects all schedulers to belong to the same optimizer")
        self._schedulers = list(schedulers)
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()


def _undo(schedulers: Sequence[LRScheduler]) -> None:
    """Take back the step that each took when it was made; those that hold others take none themselves."""
    for scheduler in schedulers:
        inner = scheduler.__dict__.get("_schedulers")
        if inner is not None:
            _undo(inner)
        else:
            scheduler.last_epoch -= 1
