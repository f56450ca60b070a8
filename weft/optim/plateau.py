"""ReduceLROnPlateau."""

from __future__ import annotations

import math
from typing import Any

from weft.optim.optimizer import Optimizer
from weft.optim.scheduler import LRScheduler, refuse_capture
from weft.support.errors import StateError, ValueProblem


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a metric has not improved for `patience` steps. Call `step(metric)`."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0, eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueProblem("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueProblem(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueProblem(f"threshold mode {threshold_mode} is unknown!")
        groups, is_each = len(optimizer.param_groups), isinstance(min_lr, (list, tuple))
        if is_each and len(min_lr) != groups:
            raise ValueProblem(f"expected {groups} min_lrs, got {len(min_lr)}")
        self.min_lrs = list(min_lr) if is_each else [min_lr] * groups
        self.default_min_lr = None if is_each else min_lr
        self.mode, self.factor, self.patience, self.threshold, self.threshold_mode = (
            mode, factor, patience, threshold, threshold_mode
        )
        self.cooldown, self.eps = cooldown, eps
        self.cooldown_counter, self.num_bad_epochs = 0, 0
        self.best = math.inf if mode == "min" else -math.inf
        super().__init__(optimizer)

    def _begin(self) -> None:
        self.last_epoch = 0
        self._last_lr = self._rates()

    @property
    def in_cooldown(self) -> bool:
        """Whether the rate was lowered less than `cooldown` steps ago."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of a metric, and lower the rates when it has stalled."""
        refuse_capture()
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()

    def _is_better(self, value: float) -> bool:
        margin = (
            self.threshold if self.threshold_mode == "abs" else self.threshold * self.best if math.isfinite(self.best)
            else 0.0
        )
        return value < self.best - margin if self.mode == "min" else value > self.best + margin

    def _reduce(self) -> None:
        if len(self.groups) != len(self.min_lrs):  # a group was added to the optimizer since
            if self.default_min_lr is None:
                raise StateError(
                    f"The number of param groups in the `optimizer` ({len(self.groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(self.groups)
        rates = []
        for group, low in zip(self.groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, low)
            rates.append(rate if group["lr"] - rate > self.eps else group["lr"])
        self._set(rates)
